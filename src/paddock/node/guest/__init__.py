"""What runs inside a VM: the guest script, the LaunchAgent for images without a guest agent, and how both are started.

The script is the same in every image. The host's agent puts it on the read-only share, so an image holds nothing of ours
that could grow old; where the image has Tart's guest agent, `start_arguments` starts the script from there.
"""

from functools import cache
from importlib import resources

__all__ = [
    "LAUNCH_AGENT_LABEL",
    "NO_NETWORK",
    "RUNNER_TOO_OLD",
    "SCRIPT_NAME",
    "SHARES_IN_GUEST",
    "STOPPED_BY_HOST",
    "guest_script",
    "launch_agent",
    "start_arguments",
]

SCRIPT_NAME = "guest.sh"
SHARES_IN_GUEST = "/Volumes/My Shared Files"
LAUNCH_AGENT_LABEL = "dev.tuist.paddock-guest"
# Codes that the script reports in `rc`; any other one that is not 0 is the runner's, or 1 for our own failure.
RUNNER_TOO_OLD = 7
NO_NETWORK = 69
STOPPED_BY_HOST = 143

# The login shell gives the job the user's PATH and locale. The script must outlive the call, because the call ends with
# the host's agent: HUP is ignored, and `set -m` (bash needs no terminal for it, zsh does) gives it a process group of its
# own and leaves SIGINT alone, by which run.sh ends its listener. Not `nohup`: on macOS it moves a process from the Aqua
# session into the Background one, and a job there has no windows, no simulator and no login keychain.
_START = (
    "trap '' HUP; exec /bin/bash -c 'set -m; /bin/sh \"$0\" </dev/null >/dev/null 2>&1 &' "
    f'"${{PADDOCK_SHARES:-{SHARES_IN_GUEST}}}/env/{SCRIPT_NAME}"'
)


@cache
def guest_script() -> str:
    """The text of the script, to be put on the share as `SCRIPT_NAME`."""
    return resources.files(__name__).joinpath(SCRIPT_NAME).read_text(encoding="utf-8")


@cache
def launch_agent() -> str:
    """The property list for `~/Library/LaunchAgents` of an image without guest agent: waits for the share, runs the script."""
    return resources.files(__name__).joinpath(f"{LAUNCH_AGENT_LABEL}.plist").read_text(encoding="utf-8")


def start_arguments(vm: str) -> list[str]:
    """The arguments for `tart` that start the script in the VM, detached; the call returns at once.

    It may be repeated: a copy that finds another one running ends without a trace.
    """
    return ["exec", vm, "/bin/zsh", "-lc", _START]
