"""The shell that runs on a Mac, as texts. Bash 3.2, BSD tools, every absolute path behind `${ROOT:-}`.

`on_host_*` are installed on the host and run there by launchd; all others run over SSH after `prelude.sh`.
"""

from functools import cache
from importlib import resources

__all__ = ["NEEDS_PF_CONF", "on_host", "script", "script_names"]

NEEDS_PF_CONF = frozenset({"egress_firewall", "egress_firewall_absent"})
_FRAGMENTS = frozenset({"prelude", "pf_conf"})


@cache
def script(name: str) -> str:
    """The whole text of a step's script, with what it builds on before it."""
    before = ["prelude", "pf_conf"] if name in NEEDS_PF_CONF else ["prelude"]
    return "\n".join(_read(part) for part in [*before, name])


@cache
def on_host(name: str) -> str:
    """A program that is installed on the host, without its last newline (which the installer adds)."""
    return _read(f"on_host_{name}").rstrip("\n")


def script_names() -> list[str]:
    """Every script that runs over SSH."""
    files = (entry.name for entry in resources.files(__name__).iterdir() if entry.name.endswith(".sh"))
    names = {name.removesuffix(".sh") for name in files}
    return sorted(name for name in names - _FRAGMENTS if not name.startswith("on_host_"))


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8")
