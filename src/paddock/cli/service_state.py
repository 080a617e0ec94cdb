"""What a command asks of those who do the work: dispatch, its database, the operator. Each read that fails is a finding."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.cli.connections import Problem, Reached

if TYPE_CHECKING:
    from paddock.kube.builtin import Lease
    from paddock.runners.http.concern import Concern
    from paddock.runners.ledger.views import QueueSummary
    from paddock.views.problems.services import Unread

__all__ = ["ServiceState", "killed", "operator_leases", "service_state"]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What the dispatch service says; None where that read failed, which `unread` tells, or where nothing serves it."""

    summary: "QueueSummary | None" = None
    heals: list[dict[str, Any]] | None = None
    killed: int | None = None
    forced: int = 0
    concerns: "Sequence[Concern]" = ()
    unread: "Sequence[Unread]" = ()


async def service_state(reached: Reached) -> ServiceState:
    import msgspec

    from paddock.base.metrics import ALLOWED_KILLS
    from paddock.runners.http.concern import Concern
    from paddock.runners.ledger.views import QueueSummary
    from paddock.views.problems.services import DISPATCH, LINE, Unread

    ledger = reached.ledger
    summary, heals, metrics, concerns = await asyncio.gather(
        _read(ledger.get("strip")),
        _read(ledger.get("heals?limit=1000")),
        _read(ledger.text("/metrics")),
        _read(ledger.get("concerns")),
    )
    answers = {
        LINE: summary,
        "the list of what was healed": heals,
        "its metrics": metrics,
        "what it stands on": concerns,
    }
    unread = [Unread(what, str(answer)) for what, answer in answers.items() if isinstance(answer, Problem)]
    if len(unread) == len(answers):
        unread = [Unread(DISPATCH, unread[0].why)]
    text = None if isinstance(metrics, Problem) else metrics
    return ServiceState(
        None if summary is None or isinstance(summary, Problem) else msgspec.convert(summary, QueueSummary),
        None if isinstance(heals, Problem) else heals,
        killed(text),
        killed(text, rf'\{{path="(?:{"|".join(ALLOWED_KILLS)})"\}}') or 0,
        () if isinstance(concerns, Problem) else msgspec.convert(concerns or [], list[Concern]),
        unread,
    )


async def _read(answer: Any) -> Any:
    """The answer, or the Problem as one: silence is a finding here, not a reason to show nothing."""
    try:
        return await answer
    except Problem as problem:
        return problem


def killed(metrics: str | None, labels: str = r"(?:\{[^}]*\})?") -> int | None:
    """How many jobs ended because of us, over all series or those with these labels; None where no process counts."""
    found = re.findall(rf"^paddock_live_kills_total{labels} (\S+)$", metrics or "", re.MULTILINE)
    return int(sum(map(float, found))) if found else None


async def operator_leases(reached: Reached) -> "list[Lease]":
    """The leases of operators: of the one namespace that was given, or of all of them. KubeError where they cannot be read."""
    from paddock.kube.builtin import Lease
    from paddock.kube.errors import ForbiddenError, NotFoundError
    from paddock.kube.leader import OPERATOR_LEASE

    if not reached.only:
        try:
            return (await reached.client.list(Lease, field_selector=f"metadata.name={OPERATOR_LEASE}")).items
        except ForbiddenError:
            pass  # a right in one namespace may still be there
    try:
        return [await reached.client.get(Lease, OPERATOR_LEASE, reached.namespace)]
    except NotFoundError:
        return []
