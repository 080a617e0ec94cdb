"""A real Kubernetes control plane on loopback, for as long as a `with` block lasts.

`running_control_plane()` starts etcd, kube-apiserver and kube-controller-manager with
throw-away certificates and RBAC, and hands out a `ControlPlane`. There is no node, and no
scheduler unless it is asked for: Pods stay Pending unless a test moves them itself.
"""

from __future__ import annotations

import base64
import csv
import os
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import yaml
from kube import components
from kube.ports import free_port
from kube.supervision import ControlPlaneError, Program, Supervisor
from kube.throwaway_certificates import Authority, KeyPair, write_signing_key

BUILD_SCRIPT = Path(__file__).resolve().parents[2] / "hack" / "kube" / "build.py"
READY_SECONDS = 270.0
POLL_SECONDS = 0.05
# Short, because a stranger on our port may accept the connection and never answer.
PROBE_SECONDS = 6.0
# Two programs that look for a free port at once can find the same one.
PORT_ATTEMPTS = 3
ADMIN_GROUP = "system:masters"


class BinariesUnavailableError(ControlPlaneError):
    """Neither a build nor KUBEBUILDER_ASSETS gave the binaries; the message says what to install."""


@dataclass(frozen=True)
class Credentials:
    """One way to be somebody in the cluster: a bearer token or a client certificate."""

    user: str
    kubeconfig: Path
    token: str | None = field(default=None, repr=False)
    certificate: KeyPair | None = None


class ControlPlane:
    """A ready API server and what a client needs to reach it.

    `limited` is authenticated but holds no rights beyond those of every authenticated
    user. Objects a test creates stay until it deletes them: use names of your own.
    """

    def __init__(self, supervisor: Supervisor, binaries: Path, url: str, authority: Authority) -> None:
        self.url = url
        self.ca_file = authority.file
        self.ready_seconds = 0.0
        self._supervisor = supervisor
        self._authority = authority
        self._binaries = binaries
        self._tls = ssl.create_default_context(cafile=str(authority.file))
        self.admin = self._with_token("admin", secrets.token_urlsafe(32))
        self.limited = self._with_token("limited", secrets.token_urlsafe(32))

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.admin.kubeconfig

    @property
    def token(self) -> str:
        """The admin's bearer token, a member of system:masters."""
        assert self.admin.token is not None
        return self.admin.token

    @property
    def kubectl(self) -> Path:
        """The kubectl of the same release as the server."""
        return executable(self._binaries, "kubectl")

    @property
    def processes(self) -> dict[str, int]:
        """The process id of every program, by name."""
        return {program.name: program.process.pid for program in self._supervisor.programs}

    @property
    def has_controllers(self) -> bool:
        """Whether kube-controller-manager runs: garbage collection, default ServiceAccounts."""
        return "kube-controller-manager" in self.processes

    def kill(self, name: str) -> Program:
        """End one of the programs as `kill -9` does; `restart` takes what this gives."""
        program = next(each for each in self._supervisor.programs if each.name == name)
        self._supervisor.kill(program)
        return program

    def restart(self, program: Program) -> Program:
        """Start a program that was killed with the same command; an API server is waited for until it serves."""
        started = self._supervisor.restart(program)
        if program.name == "kube-apiserver":
            with self.client() as http:
                _wait(started, "answer /readyz", lambda: http.get("/readyz", timeout=PROBE_SECONDS).is_success)
        return started

    def start_beside(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Program:
        """A program of the test's own, which ends with the control plane at the latest; its log lies beside the others."""
        return self._supervisor.start(name, command, environment)

    def user(self, name: str, groups: tuple[str, ...] = ()) -> Credentials:
        """A client certificate for any user, usable at once; the name need not exist anywhere."""
        stem = f"user-{secrets.token_hex(4)}"
        pair = self._authority.client(name, groups, stem)
        identity = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        return Credentials(name, self._write_kubeconfig(stem, identity), certificate=pair)

    def service_account(self, namespace: str, name: str) -> Credentials:
        """A bearer token for a ServiceAccount, which is created if it is not there."""
        collection = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with self.client() as http:
            created = http.post(collection, json={"metadata": {"name": name}})
            if created.status_code != httpx2.codes.CONFLICT.value:
                created.raise_for_status()
        return self._with_token(f"system:serviceaccount:{namespace}:{name}", self.account_token(namespace, name))

    def account_token(self, namespace: str, name: str, *audiences: str) -> str:
        """A token of a ServiceAccount that is there: for these audiences, or for the API server."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        with self.client() as http:
            issued = http.post(path, json={"spec": {"audiences": audiences} if audiences else {}}).raise_for_status()
        return issued.json()["status"]["token"]

    def client(self, who: Credentials | None = None) -> httpx2.Client:
        """An HTTP client that speaks as `who`, the admin by default; the caller closes it."""
        who = who or self.admin
        tls = self._tls
        if who.certificate is not None:
            tls = ssl.create_default_context(cafile=str(self.ca_file))
            tls.load_cert_chain(who.certificate.certificate, who.certificate.key)
        headers = {} if who.token is None else {"Authorization": f"Bearer {who.token}"}
        # A proxy named in the environment must not see loopback traffic.
        return httpx2.Client(base_url=self.url, verify=tls, headers=headers, timeout=90.0, trust_env=False)

    def run_kubectl(self, *arguments: str, who: Credentials | None = None) -> str:
        """What kubectl prints; raises `ControlPlaneError` with its complaint if it fails."""
        kubeconfig = (who or self.admin).kubeconfig
        command = [str(self.kubectl), f"--kubeconfig={kubeconfig}", *arguments]
        environment = clean_environment(self._supervisor.folder)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180.0, check=False)
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _with_token(self, user: str, token: str) -> Credentials:
        kubeconfig = self._write_kubeconfig(f"token-{secrets.token_hex(4)}", {"token": token})
        return Credentials(user, kubeconfig, token=token)

    def _write_kubeconfig(self, stem: str, identity: dict[str, str]) -> Path:
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "test", "user": identity}],
        }
        path = self._supervisor.folder / f"{stem}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path


def provide_binaries() -> Path:
    """The folder with the binaries; builds them the first time, which takes minutes."""
    built = subprocess.run(
        [sys.executable, str(BUILD_SCRIPT)], stdout=subprocess.PIPE, stderr=None, text=True, check=False
    )
    if built.returncode != 0:
        raise BinariesUnavailableError(
            f"{BUILD_SCRIPT.name} could not provide the control plane; its message is above. "
            "Install Go as it asks, or set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd."
        )
    return Path(built.stdout.strip())


def executable(binaries: Path, name: str) -> Path:
    path = binaries / name
    if not os.access(path, os.X_OK):
        raise BinariesUnavailableError(
            f"{binaries} has no {name}; add it, or unset KUBEBUILDER_ASSETS to build all of them."
        )
    return path


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the user's own: no proxy, no kubeconfig, no cache in the home folder."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(home)}


@contextmanager
def running_control_plane(
    binaries: Path, *, durable: bool = False, controllers: bool = True, scheduler: bool = False
) -> Iterator[ControlPlane]:
    """A ready control plane; however the block is left, no process and no file of it remains.

    `binaries` comes from `provide_binaries()`. `durable` makes etcd wait for the disk as
    in production, which benches need and tests do not. `controllers` asks for
    kube-controller-manager; where `binaries` lacks it (a folder the user named may), the
    control plane comes without it and its `has_controllers` is false. `scheduler` starts kube-scheduler, too.
    """
    controllers = controllers and (binaries / "kube-controller-manager").exists()
    supervisor, control_plane = _launched(binaries, durable=durable, controllers=controllers)
    try:
        if scheduler:
            command = [
                str(executable(binaries, "kube-scheduler")),
                *components.kube_scheduler(control_plane.kubeconfig),
            ]
            supervisor.start("kube-scheduler", command, clean_environment(supervisor.folder))
        yield control_plane
    finally:
        supervisor.close()


def _launched(binaries: Path, *, durable: bool, controllers: bool) -> tuple[Supervisor, ControlPlane]:
    """Launch, again on other ports if somebody else was faster; a failure leaves nothing behind."""
    for attempt in range(1, PORT_ATTEMPTS + 1):
        supervisor = Supervisor()
        try:
            control_plane = _launch(supervisor, binaries, durable=durable, controllers=controllers)
        except BaseException as error:
            supervisor.close()
            # A program says only in its log why it could not listen.
            if attempt < PORT_ATTEMPTS and "address already in use" in str(error):
                continue
            raise
        return supervisor, control_plane
    raise AssertionError("the last attempt returns or raises")


def _launch(supervisor: Supervisor, binaries: Path, *, durable: bool, controllers: bool) -> ControlPlane:
    """Start the programs one after the other, each when the one below it is ready."""
    began = time.perf_counter()
    folder = supervisor.folder
    authority = Authority(folder)
    signing_key, verifying_key = write_signing_key(folder)
    layout = components.Layout(
        folder=folder,
        server_port=free_port(),
        authority=authority.file,
        authority_key=authority.key_file,
        serving=authority.serving("kube-apiserver"),
        kubelet_client=authority.client(
            "kube-apiserver-kubelet-client", ("system:masters",), "kube-apiserver-kubelet-client"
        ),
        signing_key=signing_key,
        verifying_key=verifying_key,
        tokens=folder / "tokens.csv",
    )
    control_plane = ControlPlane(supervisor, binaries, layout.url, authority)
    _write_tokens(layout.tokens, control_plane)

    def start(name: str, arguments: list[str]) -> Program:
        command = [str(executable(binaries, name)), *arguments]
        return supervisor.start(name, command, clean_environment(folder))

    etcd = start("etcd", components.etcd(layout, durable=durable))
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(layout.storage_socket))) as http:
        _wait(etcd, "be healthy", lambda: http.get("http://etcd/health", timeout=PROBE_SECONDS).is_success)
    server = start("kube-apiserver", components.kube_apiserver(layout, with_controllers=controllers))
    with control_plane.client() as http:
        _wait(server, "answer /readyz", lambda: http.get("/readyz", timeout=PROBE_SECONDS).is_success)
        if controllers:
            arguments = components.kube_controller_manager(layout, control_plane.kubeconfig)
            manager = start("kube-controller-manager", arguments)
            # Its first visible deed, and the one Pods need.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            _wait(
                manager, "make the default ServiceAccount", lambda: http.get(account, timeout=PROBE_SECONDS).is_success
            )
    control_plane.ready_seconds = time.perf_counter() - began
    return control_plane


def _write_tokens(path: Path, control_plane: ControlPlane) -> None:
    """The server reads this file once, at its start."""
    path.touch(mode=0o600)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([control_plane.admin.token, control_plane.admin.user, "admin", ADMIN_GROUP])
        rows.writerow([control_plane.limited.token, control_plane.limited.user, "limited", ""])


def _wait(program: Program, goal: str, reached: Callable[[], bool]) -> None:
    """Poll until `reached`; a program that ends or dawdles is reported with its log."""
    deadline = time.perf_counter() + READY_SECONDS
    while True:
        program.check_alive()
        try:
            if reached():
                return
        except httpx2.TransportError:
            # Not listening yet; the deadline bounds how long that may last.
            pass
        if time.perf_counter() > deadline:
            raise ControlPlaneError(
                f"{program.name} did not {goal} within {READY_SECONDS:.0f} s.\n{program.explanation()}"
            )
        time.sleep(POLL_SECONDS)
