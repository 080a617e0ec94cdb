"""What an agent is told at its start."""

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["AgentSettings"]

_SCRIPT = "/Volumes/My Shared Files/env/guest.sh"
_COMMAND = (
    "/bin/zsh",
    "-lc",
    # Through a login shell, for HOME, PATH and locale; detached, because the call ends with the agent on the host.
    f'test -f "{_SCRIPT}" && {{ trap "" HUP; /bin/sh "{_SCRIPT}" </dev/null >/dev/null 2>&1 & }}',
)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`namespace` narrows the look at Pods for an identity that may see one namespace only; a node's sees its own Pods in all.

    `guest_script` is what runs in each VM, `guest_command` what starts it there; `runner_archive` replaces the runner of an image.
    `logs_port` is where the API server finds the logs of Pods; 0 where they are not served.
    """

    node_name: str
    data: Path
    dispatch_url: str
    guest_script: bytes
    guest_command: tuple[str, ...] = _COMMAND
    shares: Path | None = None
    namespace: str | None = None
    provider_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    kubelet_version: str = ""
    max_vms: int = 2
    reserve_memory_mb: int = 2048
    runner_archive: Path | None = None
    version: str = ""
    logs_port: int = 0
    tick: float = 1.0
    sweep_every: float = 10.0
    absent_for: float = 30.0
    lease_seconds: int = 40
    lease_every: float = 10.0
    status_every: float = 300.0
    token_seconds: int = 7200
    token_every: float = 600.0
    long_uptime_days: float = 40.0
    use_softnet: bool = False
