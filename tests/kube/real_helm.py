"""The real Helm on a real cluster, in a process and a home of its own.

Helm keeps what it discovered of a server in its home, by the server's address: another home, so that a port which was used before
does not answer for a fresh server.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import helm_python
from kube.controlplane import clean_environment

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

SECONDS: Final = 360


class HelmFailedError(Exception):
    """Helm refused, or the server refused Helm; the message is Helm's own."""


class Helm:
    """What a person types, for the releases of one namespace."""

    def __init__(self, control_plane: "ControlPlane", home: Path, namespace: str) -> None:
        self._kubeconfig, self._home, self._namespace = control_plane.kubeconfig, home, namespace

    def install(self, chart: Path, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """`helm install --create-namespace`: the release as Helm reports it."""
        return self._run("install", name, chart=str(chart), values=values)

    def upgrade(self, chart: Path, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """`helm upgrade`: the release's new revision."""
        return self._run("upgrade", name, chart=str(chart), values=values)

    def uninstall(self, name: str) -> dict[str, Any]:
        return self._run("uninstall", name)

    def _run(self, verb: str, name: str, **more: Any) -> dict[str, Any]:
        asked = {"kubeconfig": str(self._kubeconfig), "namespace": self._namespace, "verb": verb, "name": name, **more}
        done = subprocess.run(
            [sys.executable, __file__],
            env={**clean_environment(self._home), "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SECONDS + 30.0,
            check=False,
        )
        if done.returncode != 0:
            raise HelmFailedError(f"helm {verb} {name}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def main() -> None:
    """One command, read from the standard input."""
    asked = json.load(sys.stdin)
    with helm_python.Config(kubeconfig_path=asked["kubeconfig"], namespace=asked["namespace"]) as config:
        verbs: dict[str, Callable[[], Any]] = {
            "install": lambda: config.install(
                asked["chart"],
                asked["name"],
                asked["values"],
                namespace=asked["namespace"],
                create_namespace=True,
                timeout=SECONDS,
            ),
            "upgrade": lambda: config.upgrade(
                asked["chart"], asked["name"], asked["values"], namespace=asked["namespace"], timeout=SECONDS
            ),
            "uninstall": lambda: config.uninstall(asked["name"], timeout=SECONDS),
        }
        try:
            print(json.dumps(verbs[asked["verb"]]()))
        except helm_python.HelmError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
