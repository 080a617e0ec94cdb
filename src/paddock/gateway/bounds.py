"""What of a Mac's report counts: bytes of anybody become one bounded value, or a refusal. Pure, and nothing in it ever raises.

Nothing passes that is not named here. What a newer agent says in words that we do not know costs it no heartbeat: an unknown
state holds its seat and counts as work, as does a Pod that cannot be decoded; an unknown condition is left out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from paddock.clients.gateway.messages import LARGEST_BODY, Event, MacFacts, PodReport, Report, Stated, Vitals
from paddock.gateway import bounded
from paddock.gateway.pod_bounds import MESSAGE, NEVER, pods_of
from paddock.gateway.refusals import Refused

__all__ = ["CONDITIONS", "EVENT_REASONS", "OTHER_EVENT", "Accepted", "Ceiling", "accept"]

CONDITIONS: Final = frozenset(
    {
        "Ready",
        "DiskPressure",
        "VMSlotsLeaked",
        "VMSlotsLeakOften",
        "LongUptime",
        "JournalUnreadable",
    }
)
"""Of a Node's conditions those that its agent states; the gateway itself states the others."""
EVENT_REASONS: Final = frozenset(
    {
        "DispatchUnreachable",
        "EgressOpen",
        "ErrImagePull",
        "GuestUnreachable",
        "HostRebooted",
        "JournalUnreadable",
        "NoNetwork",
        "NoSession",
        "NodeUnderPressure",
        "NotAsking",
        "OutOfcpu",
        "OutOfmemory",
        "OutOftuist.dev/vm",
        "RunnerTooOld",
        "UnsupportedPod",
        "VMFailed",
        "VMStartFailed",
    }
)
OTHER_EVENT: Final = "AgentEvent"
"""The reason of an event whose own is not in the list."""
SEATS: Final = 2
"""So many VMs macOS runs at once."""
_MOST_EVENTS: Final = 16
_MOST_GOLDENS: Final = 64
_MOST_NUMBER: Final = 10**18
"""Below it the Lease's annotation reads a life or a sequence again."""
_MOST_BYTES: Final = 1 << 50
_MOST_PERCENT: Final = 100.0 * 1024
_HOUR: Final = timedelta(hours=1)


class Ceiling(Struct, frozen=True):
    """What a Mac's Machine grants it: the Mac itself can only say less. None: the Machine names no number."""

    seats: int = SEATS
    cpus: int | None = None
    memory_bytes: int | None = None
    softnet: bool = False


class Accepted(Struct, frozen=True, kw_only=True):
    """A report within all bounds. `pods` stands for the report's own `pods`, which is empty.

    `left_out` counts Pods that are not in it because there are too many, or because their uid is none. While there are any, nobody
    may take the Mac for idle.
    """

    report: Report
    pods: dict[str, PodReport]
    at: datetime
    left_out: int = 0


class _Outer(Struct, frozen=True, kw_only=True):
    """A report whose parts are decoded one by one, so that a bad one costs itself alone."""

    folder: str
    life: int
    word: str
    sequence: int
    agent: str
    mac: MacFacts
    proven: bool = False
    seen: str = ""
    conditions: Raw = field(default_factory=Raw)
    events: Raw = field(default_factory=Raw)
    vitals: Raw = field(default_factory=Raw)
    vm_vitals: Raw = field(default_factory=Raw)
    pods: Raw = field(default_factory=Raw)


def accept(body: bytes, now: datetime, ceiling: Ceiling, born: Mapping[str, datetime]) -> Accepted | Refused:
    """The report in these bytes. `born` has the creation of each Pod that is bound to the Mac, by uid.

    A Pod's moments are moved between its creation and `now`, those of the Mac to an hour around `now`. One that lies ahead becomes
    another at each report, so whoever records a moment keeps the first.
    """
    if len(body) > LARGEST_BODY:
        return Refused(413, f"a report has {LARGEST_BODY // 1024} KiB at most")
    outer = bounded.decoded(body, _Outer)
    if outer is None:
        return Refused(
            400, "the report is no JSON of the shape that this release knows: install the agent of this release"
        )
    if not (bounded.word(outer.folder) and bounded.word(outer.word)):
        return Refused(400, "the report's folder and word are words of letters, digits, - and _, 64 at most")
    if not (0 <= outer.life < _MOST_NUMBER and 0 <= outer.sequence < _MOST_NUMBER):
        return Refused(400, "the report's life and sequence count from 0 and have 18 digits at most")
    pods, left_out = pods_of(outer.pods, now, born)
    report = Report(
        folder=outer.folder,
        life=outer.life,
        word=outer.word,
        sequence=outer.sequence,
        agent=bounded.line(outer.agent, 64),
        mac=_mac(outer.mac, now, ceiling),
        proven=outer.proven,
        seen=bounded.word(outer.seen),
        conditions=_conditions(outer.conditions),
        events=_events(outer.events, now),
        vitals=_vitals(outer.vitals),
        vm_vitals=_vm_vitals(outer.vm_vitals, pods),
    )
    return Accepted(report=report, pods=pods, at=now, left_out=left_out)


def _mac(mac: MacFacts, now: datetime, ceiling: Ceiling) -> MacFacts:
    most_memory = _MOST_BYTES if ceiling.memory_bytes is None else ceiling.memory_bytes
    return MacFacts(
        machine_id=bounded.word(mac.machine_id),
        boot_id=bounded.line(mac.boot_id, 128),
        booted_at=bounded.between(mac.booted_at, NEVER, now + _HOUR),
        cpus=bounded.number(mac.cpus, 1024 if ceiling.cpus is None else ceiling.cpus),
        memory_bytes=bounded.number(mac.memory_bytes, most_memory),
        disk_bytes=bounded.number(mac.disk_bytes, _MOST_BYTES),
        seats=bounded.number(mac.seats, bounded.number(ceiling.seats, SEATS)),
        clock=bounded.between(mac.clock, now - _HOUR, now + _HOUR),
        fewer=bounded.line(mac.fewer, MESSAGE),
        os_image=bounded.line(mac.os_image, 128),
        kernel=bounded.line(mac.kernel, 128),
        tart=bounded.line(mac.tart, 64),
        address=bounded.address(mac.address),
        hostname=bounded.name(mac.hostname),
        softnet=mac.softnet and ceiling.softnet,
        goldens=None if mac.goldens is None else tuple(filter(_is_golden, mac.goldens))[:_MOST_GOLDENS],
    )


def _is_golden(text: str) -> bool:
    return len(text) == 16 and not text.strip("0123456789abcdef")


def _conditions(raw: Raw) -> dict[str, Stated]:
    found = bounded.decoded(raw, dict[str, Raw]) or {}
    stated = {kind: bounded.decoded(found[kind], Stated) for kind in sorted(CONDITIONS & found.keys())}
    return {
        kind: replace(each, reason=bounded.label(each.reason, "NoReason"), message=bounded.line(each.message, MESSAGE))
        for kind, each in stated.items()
        if each is not None
    }


def _events(raw: Raw, now: datetime) -> tuple[Event, ...]:
    found = [bounded.decoded(each, Event) for each in (bounded.decoded(raw, tuple[Raw, ...]) or ())[:_MOST_EVENTS]]
    return tuple(
        Event(
            reason=each.reason if each.reason in EVENT_REASONS else OTHER_EVENT,
            message=bounded.line(each.message, MESSAGE),
            at=bounded.between(each.at, now - _HOUR, now + _HOUR),
            pod=bounded.uid(each.pod),
            warning=each.warning,
        )
        for each in found
        if each is not None
    )


def _vitals(raw: Raw) -> Vitals | None:
    found = bounded.decoded(raw, Vitals)
    if found is None:
        return None
    memory, disk = found.memory_bytes, found.disk_free_bytes
    return Vitals(
        bounded.percent(found.cpu_percent, _MOST_PERCENT),
        None if memory is None else bounded.number(memory, _MOST_BYTES),
        None if disk is None else bounded.number(disk, _MOST_BYTES),
    )


def _vm_vitals(raw: Raw, pods: Mapping[str, PodReport]) -> dict[str, Vitals]:
    found = bounded.decoded(raw, dict[str, Raw]) or {}
    read = {uid: _vitals(found[uid]) for uid in pods if uid in found}
    return {uid: vitals for uid, vitals in read.items() if vitals is not None}
