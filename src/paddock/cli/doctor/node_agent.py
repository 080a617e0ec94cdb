"""What a fleet without a fleet file puts on its Macs, if this environment is the operator's: the agent's bundle, Tart, and Softnet."""

from collections.abc import Mapping
from pathlib import Path

from paddock.cli.doctor.check import Check, bad, good, unknown
from paddock.hosts.bootstrap import PlanError
from paddock.hosts.bootstrap.agent_bundle import (
    BUNDLE_VARIABLE,
    DEFAULT_BUNDLE,
    PLACEHOLDER_REMEDY,
    PLACEHOLDER_SHA256,
    SOFTNET_MISSING,
    missing_parts,
    read_bundle,
)

__all__ = ["node_agent"]


def node_agent(environ: Mapping[str, str], image: Path = DEFAULT_BUNDLE) -> list[Check]:
    """`image` is where our image has the bundle; where not even its folder exists, this is a person's own machine."""
    named = environ.get(BUNDLE_VARIABLE, "")
    path = Path(named) if named else image
    tart = environ.get("PADDOCK_TART_URL", "")
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
    if tart and environ.get("PADDOCK_TART_SHA256", "") == PLACEHOLDER_SHA256:
        checks.append(bad("Tart", f"its checksum is wrong: {PLACEHOLDER_REMEDY}", missing["--tart-url"]))
    elif tart:
        version = environ.get("PADDOCK_TART_VERSION", "")
        checks.append(good("Tart", f"Macs fetch {version or 'it'} from {tart}"))
    else:
        checks.append(bad("Tart", "no setting says where Macs get it", missing["--tart-url"]))
    return [*checks, _softnet(environ)]


def _softnet(environ: Mapping[str, str]) -> Check:
    softnet = environ.get("PADDOCK_SOFTNET_URL", "")
    if not softnet:
        return good("Softnet", SOFTNET_MISSING)
    if environ.get("PADDOCK_SOFTNET_SHA256", "") == PLACEHOLDER_SHA256:
        return bad("Softnet", f"its checksum is wrong: {PLACEHOLDER_REMEDY}", SOFTNET_MISSING)
    return good("Softnet", f"Macs fetch {environ.get('PADDOCK_SOFTNET_VERSION', '') or 'it'} from {softnet}")
