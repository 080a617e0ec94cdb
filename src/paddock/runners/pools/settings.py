"""What the pool controller is told from outside."""

from dataclasses import dataclass
from datetime import timedelta

from paddock.runners.api import AUDIENCE

__all__ = ["VM_RUNTIME_CLASSES", "PoolSettings"]

VM_RUNTIME_CLASSES = frozenset({"kata", "kata-qemu", "kata-clh", "kata-fc"})
"""As Kata Containers installs them."""
_NO_VM = frozenset({"runc", "crun", "youki", ""})
"""Containers on the Node's own kernel, whoever says otherwise."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The operator's flags as far as pools and the shape of their Pods are concerned."""

    dispatch_url: str
    """Where Pods ask for a job. Linux Pods: an address inside the cluster, if load balancers there have no way back."""
    macos_dispatch_url: str = ""
    """The same for VMs on Macs, which are outside the cluster's network; empty: the one above."""
    github_url: str = "https://github.com"
    """What a VM must reach over TLS before it takes a job."""
    namespace: str = "default"
    """Where pools, runner Pods and their ServiceAccounts are."""
    poller_image: str = ""
    """Waits for a job in Linux Pods; the only container there with a token. Without it Linux pools make no Pods."""
    docker_image: str = "docker:28-dind"
    vm_runtime_classes: frozenset[str] = VM_RUNTIME_CLASSES
    """The RuntimeClasses whose Pods are VMs: only in those may a Docker daemon be privileged."""
    audience: str = AUDIENCE
    token_seconds: int = 600
    """The shortest that Kubernetes issues; it renews the file by itself, and pollers read it anew every time."""
    termination_grace: int = 90
    """A runner that is told to stop needs up to a minute to end its job and to say so at GitHub; an idle Pod ends at once."""
    recheck: float = 60.0
    """How often a pool is looked at on the server, even if nothing seems to have changed."""
    blocked: float = 5.0
    """How soon again while Pods are missing that may not be created yet, or while dispatch's answer is awaited."""
    draining: float = 30.0
    """How soon again while a deleted pool waits for its busy Pods."""
    reservation: float = 30.0
    """How long a Pod that was just created counts as starting, even though no cache shows it."""
    held: float = 60.0
    """How long a Pod counts as busy after the ledger refused to let it go."""
    cold_start: timedelta = timedelta(minutes=30)
    """What the first Pod of an image on a Mac may take: the VM image, tens of gigabytes, is fetched before it starts."""
    drain_timeout: timedelta = timedelta(minutes=2)
    """How long an idle Pod that was told to drain may go on; beyond a few held requests it does not listen."""
    unready_timeout: timedelta = timedelta(minutes=5)
    """How long an idle Pod stays on a Node that is not ready; a busy one stays until its job is over, whatever the Node says."""

    def __post_init__(self) -> None:
        if not self.dispatch_url:
            raise ValueError("dispatch_url must be given: without it no runner could ask for a job")
        if wrong := sorted(self.vm_runtime_classes & _NO_VM):
            raise ValueError(
                f"vm_runtime_classes: {wrong[0] or 'an empty name'} is no VM but a container: leave it out"
            )
        if not 600 <= self.token_seconds <= 86_400:
            raise ValueError("token_seconds must be between 600 and 86400: Kubernetes issues no shorter tokens")

    def url_for(self, os: str) -> str:
        return self.macos_dispatch_url or self.dispatch_url if os == "darwin" else self.dispatch_url
