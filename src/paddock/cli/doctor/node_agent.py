"""What a fleet without a fleet file puts on its Macs, if this environment is the operator's: the agent's bundle, Tart, and Softnet."""

from collections.abc import Mapping
from pathlib import Path

from paddock.cli.doctor.check import Check, bad, good, unknown
from paddock.hosts.bootstrap import PlanError
from paddock.hosts.bootstrap.agent_bundle import (
    BUNDLE_VARIABLE,
    DEFAULT_BUNDLE,
    SOFTNET_MISSING,
    missing_parts,
    read_bundle,
)
from paddock.hosts.bootstrap.pins import chosen

__all__ = ["node_agent"]


def node_agent(environ: Mapping[str, str], image: Path = DEFAULT_BUNDLE) -> list[Check]:
    """`image` is where our image has the bundle; where not even its folder exists, this is a person's own machine."""
    named = environ.get(BUNDLE_VARIABLE, "")
    path = Path(named) if named else image
    if not named and not image.parent.is_dir():
        where = "ask the operator's own: kubectl exec deploy/paddock-operator -- paddock doctor"
        return [unknown("node agent", "this is not the operator's image, which holds the bundle for Macs", where)]
    missing = missing_parts(None, None, path)
    try:
        found = read_bundle(path)
    except FileNotFoundError:
        checks = [bad("node agent", "the bundle for Macs is missing", missing["--agent-bundle"])]
    except (OSError, PlanError) as error:
        checks = [bad("node agent", str(error), missing["--agent-bundle"])]
    else:
        checks = [good("node agent", f"version {found.version} for {found.target} is in {path}")]
    tart = _archive("tart", "Tart", environ) or bad(
        "Tart", "no setting says where Macs get it", missing["--tart-version"]
    )
    return [*checks, tart, _archive("softnet", "Softnet", environ) or good("Softnet", SOFTNET_MISSING)]


def _archive(program: str, name: str, environ: Mapping[str, str]) -> Check | None:
    """None where nothing was named."""
    said = f"PADDOCK_{program.upper()}"
    try:
        found = chosen(
            program,
            version=environ.get(f"{said}_VERSION", ""),
            url=environ.get(f"{said}_URL", ""),
            sha256=environ.get(f"{said}_SHA256", ""),
            licence_accepted=program != "tart"
            or environ.get("PADDOCK_ACCEPT_TART_LICENCE", "").lower() in ("1", "true", "yes", "on"),
        )
    except PlanError as error:
        return bad(name, str(error), "the operator does not start with this: correct the setting")
    return found and good(name, f"Macs fetch {found.version or 'it'} from {found.url}")
