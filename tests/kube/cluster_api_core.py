"""The real Cluster API core beside a test control plane, as `clusterctl init` would install it but for the container.

`running_core()` applies the release's own definitions, rights and webhooks and starts its manager as a process that acts
as the release's own ServiceAccount, so that RBAC and admission are in force. Everything of it ends with the `with` block.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import yaml
from kube.controlplane import ControlPlane, clean_environment
from kube.ports import free_port
from kube.supervision import ControlPlaneError, Program, Supervisor
from kube.throwaway_certificates import Authority

BUILD_SCRIPT = Path(__file__).resolve().parents[2] / "hack" / "clusterapi" / "build.py"
NAMESPACE = "capi-system"
ACCOUNT = "capi-manager"
# What kustomize puts on everything of core, and clusterctl on what it is to know again.
LABELS = {"cluster.x-k8s.io/provider": "cluster-api", "clusterctl.cluster.x-k8s.io": ""}
_READY_SECONDS = 180.0


@dataclass(frozen=True)
class Assets:
    """What hack/clusterapi/build.py made: the two programs, and the manifests of the very same release."""

    folder: Path

    @property
    def core(self) -> Path:
        return self.folder / "cluster-api-core"

    @property
    def clusterctl(self) -> Path:
        return self.folder / "clusterctl"

    def manifests(self, of: str) -> list[dict[str, Any]]:
        """The objects of one of the release's config folders."""
        files = sorted((self.folder / "config" / of).glob("*.yaml"))
        loaded = (each for file in files for each in yaml.load_all(file.read_text(), yaml.CSafeLoader))
        return [each for each in loaded if each and "metadata" in each]


@dataclass(frozen=True)
class Core:
    """A running core."""

    program: Program

    def log(self) -> str:
        return self.program.log.read_text(errors="replace")


def provide_assets() -> Assets:
    """Builds Cluster API the first time, which takes minutes. That it cannot be built is a failure, never a skip."""
    built = subprocess.run([sys.executable, str(BUILD_SCRIPT)], stdout=subprocess.PIPE, text=True, check=False)
    assert built.returncode == 0, "Cluster API could not be built; the message is above"
    return Assets(Path(built.stdout.strip()))


@contextmanager
def running_core(assets: Assets, control_plane: ControlPlane) -> Iterator[Core]:
    """Core, ready to admit and to reconcile, against `control_plane`."""
    supervisor = Supervisor()
    try:
        folder = supervisor.folder
        authority = Authority(folder)
        serving = authority.serving("tls")
        webhook, health = free_port(), free_port()
        _install(assets, control_plane, folder, f"https://127.0.0.1:{webhook}", authority.file.read_bytes())
        account = control_plane.service_account(NAMESPACE, ACCOUNT)
        command = [
            str(assets.core),
            f"--kubeconfig={account.kubeconfig}",
            f"--webhook-port={webhook}",
            f"--webhook-cert-dir={serving.certificate.parent}",
            f"--health-addr=127.0.0.1:{health}",
            "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics",
            "--leader-elect=false",
            "--feature-gates=MachinePool=false",
            "--v=2",
        ]
        program = supervisor.start("cluster-api-core", command, clean_environment(folder))
        _await_ready(program, f"http://127.0.0.1:{health}/readyz")
        yield Core(program)
    finally:
        supervisor.close()


def apply(control_plane: ControlPlane, folder: Path, objects: list[dict[str, Any]], *more: str) -> None:
    """What `kubectl apply` does with these objects."""
    file = folder / "manifests.yaml"
    file.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper))
    control_plane.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file), *more)


def establish(control_plane: ControlPlane, folder: Path, definitions: list[dict[str, Any]]) -> None:
    """Apply definitions and wait until their kinds are served."""
    apply(control_plane, folder, definitions)
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    control_plane.run_kubectl("wait", "--for=condition=Established", "--timeout=180s", *names)


def _install(assets: Assets, control_plane: ControlPlane, folder: Path, url: str, authority: bytes) -> None:
    bundle = base64.b64encode(authority).decode()

    def reached(path: str) -> dict[str, str]:
        return {"url": f"{url}{path}", "caBundle": bundle}

    definitions = [*assets.manifests("crd"), *assets.manifests("clusterctl")]
    for each in definitions:
        each["metadata"].setdefault("labels", {}).update(LABELS)
        if len(each["spec"]["versions"]) > 1:
            converter = {"conversionReviewVersions": ["v1"], "clientConfig": reached("/convert")}
            each["spec"]["conversion"] = {"strategy": "Webhook", "webhook": converter}
    establish(control_plane, folder, [each for each in definitions if each["kind"] == "CustomResourceDefinition"])
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    apply(control_plane, folder, [home, *(_named(each) for each in assets.manifests("rbac") if "kind" in each)])
    hooks = [each for each in assets.manifests("webhook") if each["kind"].endswith("WebhookConfiguration")]
    for each in hooks:
        each["metadata"]["name"] = f"capi-{each['metadata']['name']}"
        for hook in each["webhooks"]:
            hook["clientConfig"] = reached(hook["clientConfig"]["service"]["path"])
    apply(control_plane, folder, hooks)


def _named(each: dict[str, Any]) -> dict[str, Any]:
    """An object of config/rbac as kustomize would leave it: with core's prefix, in core's namespace."""
    meta = each["metadata"]
    meta["name"] = f"capi-{meta['name']}"
    meta["labels"] = {**meta.get("labels", {}), **LABELS}
    if each["kind"] in {"Role", "RoleBinding", "ServiceAccount"}:
        meta["namespace"] = NAMESPACE
    for subject in each.get("subjects", ()):
        subject |= {"name": ACCOUNT, "namespace": NAMESPACE}
    if "roleRef" in each:
        each["roleRef"]["name"] = f"capi-{each['roleRef']['name']}"
    return each


def _await_ready(program: Program, url: str) -> None:
    deadline = time.perf_counter() + _READY_SECONDS
    with httpx2.Client(timeout=2.0, trust_env=False) as http:
        while True:
            program.check_alive()
            try:
                if http.get(url).is_success:
                    return
            except httpx2.TransportError:
                # Not listening yet; the deadline bounds how long that may last.
                pass
            if time.perf_counter() > deadline:
                raise ControlPlaneError(f"core was not ready within {_READY_SECONDS:.0f} s.\n{program.explanation()}")
            time.sleep(0.05)


def move(assets: Assets, source: ControlPlane, target: ControlPlane, namespace: str, folder: Path) -> None:
    """`clusterctl move` of everything in a namespace; raises with what it said if it fails."""
    environment = clean_environment(folder) | {"CLUSTERCTL_DISABLE_VERSIONCHECK": "true"}
    config = folder / "clusterctl.yaml"
    config.write_text("{}\n")
    command = [str(assets.clusterctl), "move", f"--config={config}", f"--kubeconfig={source.kubeconfig}"]
    command += [f"--to-kubeconfig={target.kubeconfig}", f"--namespace={namespace}", "-v5"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"clusterctl move: {done.stdout[-2000:]}{done.stderr[-4000:]}")
