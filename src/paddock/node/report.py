"""What a Mac reports: of itself, and of each Pod that it knows. Pure, and never larger than a request may be."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from paddock.clients.gateway.messages import LARGEST_BODY, MOST_ENDS, PodReport, PodState, Reason, Report, WantedPod
from paddock.node.journal import Entry, Stage

__all__ = ["Observed", "entry_report", "fill", "is_recorded", "newcomer_report", "news_of", "unreadable_report"]

_PULL_REASONS: Final = ("ImagePulling", "ErrImagePull")
_LONGEST_TEXT: Final = 1024
_LONGEST_STATED: Final = 2048
_MOST_EVENTS: Final = 8
_LATER: Final = (PodState.ENDED, PodState.CLEARED, PodState.UNREADABLE)
_CLONING: Final = Reason("VMCloning", "the VM is cloned from its image")


class Observed(Struct, frozen=True):
    """What is known of a Pod beside its journal. `unsaid`: its guest can be read and does not say any more that it is ready.

    `newcomer` is what was decided for a Pod without an entry: `REFUSED` or `CLEARED`, None where nothing was; `since` is when.
    """

    waits: Reason | None = None
    mark: str = ""
    unsaid: bool = False
    newcomer: PodState | None = None
    since: datetime | None = None


def is_recorded(wanted: WantedPod | None) -> bool:
    """Whether the API server has the Pod's end."""
    return wanted is not None and wanted.recorded in (PodState.ENDED, PodState.CLEARED)


def entry_report(entry: Entry, wanted: WantedPod | None, observed: Observed) -> PodReport:
    """A Pod with an entry. Its end is in it until it is recorded."""
    if not entry.over:
        running = entry.running_at if entry.stage is Stage.RUNNING else None
        return _report(
            entry,
            state=_state(entry, observed),
            running_at=running,
            asks=entry.asks and not observed.unsaid,
            waits=_waits(entry, observed) if running is None else None,
            mark=observed.mark,
        )
    return _report(
        entry,
        state=PodState.CLEARED if entry.stage is Stage.CLEARED else PodState.ENDED,
        running_at=entry.running_at,
        end=None if is_recorded(wanted) else entry.end,
    )


def _report(entry: Entry, **parts: object) -> PodReport:
    report = PodReport(
        state="",
        namespace=entry.namespace,
        name=entry.name,
        vm=entry.vm,
        cluster=entry.cluster,
        accepted_at=entry.accepted_at,
        started_at=entry.started_at,
        ready_at=entry.ready_at,
        asking_at=entry.asking_at,
        cut_off_at=entry.cut_off_at,
        handed_at=entry.handed_at,
    )
    return replace(report, **parts)


def _state(entry: Entry, observed: Observed) -> PodState:
    if entry.stage is Stage.ACCEPTED:
        pulls = observed.waits is not None and observed.waits.reason in _PULL_REASONS
        return PodState.PULLING if pulls else PodState.ACCEPTED
    if entry.stage is not Stage.RUNNING or entry.ready_at is None:
        return PodState.STARTING
    return PodState.HANDED if entry.handed_at is not None else PodState.READY


def _waits(entry: Entry, observed: Observed) -> Reason | None:
    if observed.waits is None:
        return _CLONING if entry.stage is Stage.CLONING else None
    return Reason(observed.waits.reason, _bounded(observed.waits.message, _LONGEST_TEXT))


def newcomer_report(wanted: WantedPod, observed: Observed) -> PodReport | None:
    """A Pod without an entry; None where nothing was decided yet."""
    if observed.newcomer is None:
        return None
    return PodReport(
        state=observed.newcomer,
        namespace=wanted.namespace,
        name=wanted.name,
        accepted_at=wanted.started_at or observed.since,
        waits=observed.waits,
    )


def unreadable_report(wanted: WantedPod | None, observed: Observed) -> PodReport:
    """A Pod whose entry cannot be decoded."""
    namespace, name = (wanted.namespace, wanted.name) if wanted is not None else ("", "")
    return PodReport(
        state=PodState.UNREADABLE, namespace=namespace, name=name, accepted_at=observed.since, waits=observed.waits
    )


def fill(head: Report, pods: Mapping[str, PodReport], named: Mapping[str, int]) -> tuple[Report, frozenset[str]]:
    """The report with as many Pods as fit into a request, and the uids of those. `named`: how often each was named before.

    Pods whose VM may run come first. Of the rest those come first that were named least often, with at most `MOST_ENDS` ends
    that are not recorded: none is left out for ever, whatever the others weigh.
    """
    conditions = {
        kind: replace(each, message=_bounded(each.message, _LONGEST_STATED)) for kind, each in head.conditions.items()
    }
    events = tuple(replace(each, message=_bounded(each.message, _LONGEST_TEXT)) for each in head.events[:_MOST_EVENTS])
    head = replace(head, conditions=conditions, events=events, pods={})
    room = LARGEST_BODY - len(msgspec.json.encode(head)) - len(',"pods":{}')
    ends, taken = 0, dict[str, Raw]()
    for uid in sorted(pods, key=lambda each: (pods[each].state in _LATER, named.get(each, 0), each)):
        has_end = pods[uid].end is not None
        encoded = msgspec.json.encode(pods[uid])
        needed = len(encoded) + len(uid) + len(',"":')
        if needed > room or (has_end and ends == MOST_ENDS):
            continue
        room -= needed
        ends += has_end
        taken[uid] = Raw(encoded)
    return replace(head, pods=taken), frozenset(taken)


def news_of(pods: Iterable[tuple[str, PodReport]]) -> object:
    """What of a report cannot wait. A mark that moved and a text that counts are no news."""

    def telling(report: PodReport) -> PodReport:
        waits = Reason(report.waits.reason, "") if report.waits is not None else None
        return replace(report, mark="", waits=waits)

    return {uid: telling(report) for uid, report in pods}


def _bounded(text: str, limit: int) -> str:
    """At most so many bytes of JSON."""
    while len(msgspec.json.encode(text)) > limit:
        text = text[: len(text) * 3 // 4]
    return text
