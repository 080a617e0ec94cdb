"""The kubeconfig that `paddock up` writes, so that plain kubectl works against it."""

import base64
from pathlib import Path

import yaml

from paddock.base.secrets import Secret
from paddock.embedded.certificates import private_file

__all__ = ["write_kubeconfig"]


def write_kubeconfig(path: Path, *, url: str, authority: Path, token: Secret) -> None:
    """Write it whole, readable by its owner alone: it holds the administrator's token."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "paddock",
        "clusters": [
            {
                "name": "paddock",
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token.reveal()}}],
        "contexts": [{"name": "paddock", "context": {"cluster": "paddock", "user": "admin", "namespace": "default"}}],
    }
    private_file(path, yaml.safe_dump(content, sort_keys=False).encode())
