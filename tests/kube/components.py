"""The command lines of the programs, as values: nothing here starts anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kube.throwaway_certificates import KeyPair


@dataclass(frozen=True)
class Layout:
    """Where the programs find each other and their files."""

    folder: Path
    server_port: int
    authority: Path
    authority_key: Path
    serving: KeyPair
    kubelet_client: KeyPair
    signing_key: Path
    verifying_key: Path
    tokens: Path

    @property
    def storage_socket(self) -> Path:
        """A socket in the private folder: etcd asks nobody for a password, and a free port is a guess
        that another run may make too, so that one server would write into the other's storage.
        """
        return self.folder / "etcd.sock"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"


def etcd(layout: Layout, *, durable: bool) -> list[str]:
    return [
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls=unix://{layout.storage_socket}",
        # It insists on advertising a port; nobody reads what a lone member advertises,
        # and no peer ever calls it.
        "--advertise-client-urls=http://127.0.0.1:0",
        "--listen-peer-urls=http://127.0.0.1:0",
        *([] if durable else ["--unsafe-no-fsync"]),
    ]


def kube_apiserver(layout: Layout, *, with_controllers: bool) -> list[str]:
    return [
        f"--etcd-servers=unix://{layout.storage_socket}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={layout.server_port}",
        # A loopback address is no valid Endpoint, and nothing here dials the Service.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.authority}",
        # What it shows to the agents that serve logs, as kubeadm sets it up.
        f"--kubelet-client-certificate={layout.kubelet_client.certificate}",
        f"--kubelet-client-key={layout.kubelet_client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.verifying_key}",
        f"--service-account-signing-key-file={layout.signing_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--profiling=false",
        # Without controllers no namespace ever gets the ServiceAccount this plugin demands.
        *([] if with_controllers else ["--disable-admission-plugins=ServiceAccount"]),
    ]


def kube_controller_manager(layout: Layout, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority}",
        f"--cluster-signing-cert-file={layout.authority}",
        f"--cluster-signing-key-file={layout.authority_key}",
        "--leader-elect=false",
        # It serves nothing that tests ask for; one port less to collide on.
        "--secure-port=0",
        # Every controller first asks for a token of its own; the default rate makes that seconds.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def kube_scheduler(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        # As above: nobody asks it anything.
        "--secure-port=0",
    ]
