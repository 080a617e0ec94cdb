"""Which Macs of a fleet are avoided because jobs fail there at once. Pure; see docs/design/healing.md.

The invariants: no account condemns a Mac by its own workflows, and no cause that strikes most Macs at once condemns any.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from paddock.base.explanation import utc
from paddock.base.failing_mac import JobsFail
from paddock.runners.ledger.mac_ends import EndOnMac

__all__ = ["FleetJudgement", "Mac", "judge_fleet"]

_MANY: Final = 3
"""So many runners in a row."""
_REMEMBERED: Final = timedelta(hours=1)
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Mac:
    """A Mac's Node: the boot that it reports, the mark on it, and whether it takes Pods but for that mark."""

    boot_id: str
    mark: JobsFail | None = None
    serving: bool = True


@dataclass(frozen=True, slots=True)
class FleetJudgement:
    """The mark that each Mac should have, of those that should have one. `spared` is why Macs that look as bad have none."""

    marks: Mapping[str, JobsFail] = field(default_factory=dict[str, JobsFail])
    spared: str = ""


def judge_fleet(macs: Mapping[str, Mac], ends: Sequence[EndOnMac] | None, now: datetime) -> FleetJudgement:
    """Three runners of three accounts that failed at once on a Mac, none of which was followed by a success there, mark it.

    A Mac without Softnet may have jobs of one account for hours. So three of one account mark it as well where they never had a job,
    which no workflow can bring about, and that account's jobs succeeded on other Macs since: then it is not the account either.

    A mark ends with a success there, with the boot in which it was set, and an hour after the last such failure. Only Macs on
    which the last job failed at once count against the fleet: where they are half or more of those that take Pods, it is
    GitHub, the image or the network, and no Mac is marked. `ends` is None where the ledger could not be asked: then marks end by their
    time alone.
    """
    if ends is None:
        return FleetJudgement(
            {name: mac.mark for name, mac in macs.items() if mac.mark is not None and now < mac.mark.until}
        )
    of_mac: dict[str, list[EndOnMac]] = defaultdict(list)
    for end in sorted(ends, key=lambda each: each.at, reverse=True):
        of_mac[end.node].append(end)
    rows = {name: _row(mac, of_mac[name], now) for name, mac in macs.items()}
    good = [end for end in ends if end.result == "succeeded"]
    evidence = {name: found for name, row in rows.items() if (found := _evidence(row, good))}
    suspects = {name for name in macs if name in evidence or _held(macs[name], of_mac[name], now)}
    serving = {name for name, mac in macs.items() if mac.serving}
    doubtful = suspects | {name for name in serving if rows[name]}
    marks = {name: mac.mark for name, mac in macs.items() if _of_an_earlier_boot(mac, now) and mac.mark is not None}
    if not suspects:
        return FleetJudgement(marks)
    if 2 * len(doubtful) >= len(serving | suspects):
        listed = ", ".join(sorted(suspects)[:_NAMED]) + (" and others" if len(suspects) > _NAMED else "")
        return FleetJudgement(
            marks,
            f"jobs fail at once on {listed}, and on {len(doubtful)} of {len(serving | suspects)} Macs the last one did: look at GitHub, "
            "the image and the network; no Mac is avoided for it",
        )
    return FleetJudgement(
        marks | {name: _mark(macs[name], rows[name], evidence.get(name, ""), now) for name in suspects}
    )


def _row(mac: Mac, newest_first: Sequence[EndOnMac], now: datetime) -> list[EndOnMac]:
    """The failures at once since the last success, of the last hour, in this boot as far as is known."""
    since = takewhile(lambda end: end.result != "succeeded", newest_first)
    # Of a Mac that has been rebooted for it only what began after its mark is of the boot that it is in.
    before = mac.mark.at if mac.mark is not None and mac.mark.boot_id != mac.boot_id else None
    return [
        end
        for end in since
        if end.result in ("failed_at_once", "never_began")
        and now - end.at < _REMEMBERED
        and (before is None or end.started_at > before)
    ]


def _evidence(row: Sequence[EndOnMac], good: Sequence[EndOnMac]) -> str:
    """What condemns a Mac; empty where that is not enough."""
    if (accounts := len({end.account_id for end in row})) >= _MANY:
        return f"the last {len(row)} runners, of {accounts} accounts, failed within two minutes or never had their job"
    never = [end for end in row if end.result == "never_began" and _well_elsewhere(end, good)]
    if len(never) < _MANY:
        return ""
    return f"the last {len(never)} runners never had their job, while jobs of the same accounts succeed on other Macs"


def _well_elsewhere(end: EndOnMac, good: Sequence[EndOnMac]) -> bool:
    return any(one.account_id == end.account_id and one.node != end.node and one.at > end.started_at for one in good)


def _held(mac: Mac, ends: Sequence[EndOnMac], now: datetime) -> bool:
    """Whether it is marked, and neither an hour nor a success has ended that."""
    mark = mac.mark
    if mark is None or mark.boot_id != mac.boot_id or now >= mark.until:
        return False
    return not any(end.result == "succeeded" and end.at > mark.at for end in ends)


def _of_an_earlier_boot(mac: Mac, now: datetime) -> bool:
    """Such a mark keeps nobody off; it says from when on failures count, as long as those before it would."""
    return mac.mark is not None and mac.mark.boot_id != mac.boot_id and now < mac.mark.until


def _mark(mac: Mac, row: Sequence[EndOnMac], evidence: str, now: datetime) -> JobsFail:
    held = mac.mark if mac.mark is not None and mac.mark.boot_id == mac.boot_id else None
    if held is not None and not evidence:
        return held  # the oldest of what condemned it is an hour old by now
    until = max(end.at for end in row) + _REMEMBERED
    pods = ", ".join(end.pod for end in row[:_NAMED]) + (f" and {len(row) - _NAMED} more" if len(row) > _NAMED else "")
    sentence = (
        f"{evidence}; none has succeeded there since {utc(row[-1].at)} (Pods {pods}), and most other Macs do well: "
        f"it gets no job until {utc(until)}, unless it is rebooted before"
    )
    return JobsFail(mac.boot_id, held.at if held is not None else now.replace(microsecond=0), until, sentence)
