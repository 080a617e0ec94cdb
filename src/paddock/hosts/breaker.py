"""Failures that follow the configuration and not the host: when a fleet stops bootstrapping, wiping and ordering. Pure.

One host that fails is rebooted, then given back. Several that fail in the same step with the same error are not broken: their
configuration, a download or the network is. Going on would reboot and wipe one good Mac after the other, or buy new ones.
Where other hosts of the fleet do work with this configuration, the one that is tried again may go through the tiers: one
in a quarter of an hour, so that a heap of broken Macs cannot hold a fleet for ever.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from paddock.base.explanation import span, utc
from paddock.hosts.api import BootstrapFailure, MachineStatus, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.first_contact import EXPIRED
from paddock.kube.conditions import get_condition

__all__ = ["HALTED", "PROBE", "Halt", "fleet_halt", "remembered", "same_fleet", "signature"]

HALTED: Final = "FleetHalted"
PROBE: Final = timedelta(minutes=15)
"""While a fleet is halted one host is tried again this often, so that a mended cause is found without anybody's help."""
_HOSTS: Final = 3
_ORDERED_HOSTS: Final = 2
_REMEMBERED: Final = timedelta(hours=24)
_KEPT: Final = 6
_LONGEST: Final = 160
_OWN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{12,}\b|SHA256:\S+|\d+(?:\.\d+){3}|paddock\.\w{6}|\d+", re.IGNORECASE
)

Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Halt:
    """The fleet is halted. `probe` is the machine whose host is tried next; empty while it is too early for that."""

    step: str
    hosts: tuple[str, ...]
    since: datetime
    probe: str
    message: str
    elsewhere_well: bool = False
    """Hosts of this fleet work with this very configuration: the one that is tried next may be broken after all."""


def signature(problem: str) -> str:
    """What an error says, without what is each host's own: ids, addresses, numbers."""
    return _OWN.sub("#", " ".join(problem.split()))[:_LONGEST]


def remembered(status: MachineStatus, step: str, problem: str, config: str, now: datetime) -> MachineStatus:
    """The status with one more failure; the same one in the same life of the host is kept once. Outlives the host."""
    made = BootstrapFailure(
        server_id=status.server_id,
        life=status.bound_at,
        step=step,
        error=signature(problem),
        config=config,
        at=now.replace(microsecond=0),
    )
    others = [each for each in status.failures if _same(each) != _same(made)]
    return replace(status, failures=tuple([*others, made][-_KEPT:]))


def same_fleet(machine: Machine, machines: Iterable[Machine]) -> list[Machine]:
    """The machines that share the configuration: those of the fleet; a machine without one is alone."""
    fleet, meta = machine.spec.fleet_name, machine.metadata
    if not fleet:
        return [machine]
    others = [
        each
        for each in machines
        if each.spec.fleet_name == fleet and each.metadata.namespace == meta.namespace and each.metadata.uid != meta.uid
    ]
    return [machine, *others]


def fleet_halt(machines: Sequence[Machine], config: str, now: datetime) -> Halt | None:
    """Whether a fleet is halted; None while it is not. `config` is what its hosts should carry: another one begins anew.

    The evidence is in the machines' own status, so that it survives restarts, and hosts that were given back.
    """
    recent = [
        each
        for machine in machines
        for each in machine.status.failures
        if each.config == config and each.at is not None and now - each.at <= _REMEMBERED
    ]
    needed = _ORDERED_HOSTS if any(machine.spec.source == "Order" for machine in machines) else _HOSTS
    for step, error in sorted({(each.step, each.error) for each in recent}):
        alike = [each for each in recent if (each.step, each.error) == (step, error)]
        lives = {(each.server_id, each.life) for each in alike}
        since = min(each.at for each in alike if each.at is not None)
        if len(lives) < needed or _succeeded_since(machines, since):
            continue
        hosts = tuple(sorted({each.server_id for each in alike}))
        last = max(each.at for each in alike if each.at is not None)
        probe = _probe(machines) if now - last >= PROBE else ""
        message = (
            f"halted: step {step} failed in the same way {len(lives)} times on {len(hosts)} hosts since {utc(since)}, "
            f"so it is not the hosts: {error}. Nothing is rebooted, wiped or ordered; one host is tried every "
            f"{span(PROBE)}, and a changed configuration is tried at once"
        )
        well = any(machine.status.ready and machine.status.host_config_hash == config for machine in machines)
        return Halt(step, hosts, since, probe, message, well)
    return None


def _same(failure: BootstrapFailure) -> tuple[object, ...]:
    return failure.server_id, failure.life, failure.step, failure.error, failure.config


def _succeeded_since(machines: Iterable[Machine], moment: datetime) -> bool:
    said = (get_condition(machine.status.conditions, "Bootstrapped") for machine in machines)
    return any(
        each is not None
        and each.status == "True"
        and each.last_transition_time is not None
        and each.last_transition_time > moment
        for each in said
    )


def _probe(machines: Iterable[Machine]) -> str:
    """The machine with a host that has waited longest, of those that can be tried: one that cannot would be next for ever."""
    waiting = [
        machine
        for machine in machines
        if machine.status.server_id
        and machine.metadata.deletion_timestamp is None
        and PAUSED not in machine.metadata.annotations
        and machine.status.reinstall is None
        and (said := get_condition(machine.status.conditions, "Bootstrapped")) is not None
        and said.status != "True"
        and said.reason != EXPIRED
    ]

    def waited(machine: Machine) -> tuple[float, str]:
        failed = machine.status.bootstrap_failed_at
        return (failed.timestamp() if failed else 0.0, machine.metadata.name)

    return min(waiting, key=waited).metadata.name if waiting else ""
