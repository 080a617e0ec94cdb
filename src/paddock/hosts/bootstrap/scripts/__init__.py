"""The shell that runs on a Mac, as texts. Bash 3.2, BSD tools, every absolute path behind `${ROOT:-}`.

`on_host_*` are installed on the host and run there by launchd; all others run over SSH after `prelude.sh`.
"""

from functools import cache
from importlib import resources

__all__ = ["on_host", "script", "script_names"]

_BUILDS_ON = {
    **dict.fromkeys(("egress_firewall", "egress_firewall_absent"), "pf_conf"),
    **dict.fromkeys(("auto_login", "kick_session", "vm_session"), "session"),
}
_FRAGMENTS = frozenset({"prelude", *_BUILDS_ON.values()})


@cache
def script(name: str) -> str:
    """The whole text of a step's script, with what it builds on before it."""
    fragment = _BUILDS_ON.get(name)
    return "\n".join(_read(part) for part in ("prelude", *([fragment] if fragment else []), name))


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
