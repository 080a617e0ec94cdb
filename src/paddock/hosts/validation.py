"""What a machine's spec gets wrong, before any call to the cloud. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from paddock.clients.scaleway.os_family import OSPinNotFamily, family_key, require_family
from paddock.hosts import names
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = ["KNOWN_ZONES", "BadInput", "bad_input", "ignored_change"]

KNOWN_ZONES = ("fr-par-1", "fr-par-3")


@dataclass(frozen=True, slots=True)
class BadInput:
    """Something in the spec that no retry can mend: what it is, and what to write instead."""

    reason: str
    message: str


def bad_input(
    machine: ScalewayAppleSiliconMachine,
    pool_prefix: str,
    *,
    zones: Collection[str],
    types: Collection[str] | None = None,
    families: Mapping[str, str] | None = None,
) -> BadInput | None:
    """What is wrong with a machine's spec, before any call to the cloud.

    `types` and `families` (by their comparable form) are None while they are not known.
    """
    spec = machine.spec
    if len(machine.metadata.name) > names.LONGEST_NAME:
        return BadInput(
            "NameTooLong",
            f"metadata.name has {len(machine.metadata.name)} characters and becomes the host's name, which may have "
            f"{names.LONGEST_NAME}: use a shorter name for the fleet",
        )
    if names.kind_of(machine.metadata.name, pool_prefix) is not names.NameKind.OTHER:
        return BadInput(
            "NameReserved", f"metadata.name {machine.metadata.name} starts like a pool or marker name: use another name"
        )
    if spec.zone not in zones:
        return BadInput("UnknownZone", f"spec.zone {spec.zone!r} has no Macs: use one of {', '.join(sorted(zones))}")
    try:
        require_family(spec.os)
    except OSPinNotFamily as problem:
        return BadInput("InvalidOSPin", f"spec.os: {problem}")
    if families is not None and family_key(spec.os) not in families:
        known = ", ".join(sorted(set(families.values())))
        return BadInput("UnknownOS", f"spec.os {spec.os!r} is not published in {spec.zone}: use one of {known}")
    if types is not None and spec.type not in types:
        return BadInput(
            "UnknownType",
            f"spec.type {spec.type!r} is not rented out in {spec.zone}: use one of {', '.join(sorted(types))}",
        )
    problem = names.problem_with_prefix(pool_prefix)
    if problem:
        return BadInput("InvalidPoolPrefix", f"spec.adoptPoolPrefix: {problem}")
    if not pool_prefix and spec.source == "Pool":
        return BadInput(
            "NoAdoptPoolPrefix",
            "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix is set: set one, such as tuist-pool-",
        )
    return None


def ignored_change(machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost) -> str:
    """What the spec says of a bound machine that its host is not; empty where they agree, or where it is not known."""
    pairs = (("zone", machine.spec.zone, host.spec.zone), ("type", machine.spec.type, host.status.type))
    wrong = [f"spec.{field} {says!r} (it is {has})" for field, says, has in pairs if has and says != has]
    if not wrong:
        return ""
    return f"{' and '.join(wrong)} is ignored: a machine keeps its host; put it back, or delete the machine for another"
