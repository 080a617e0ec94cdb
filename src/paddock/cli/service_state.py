"""What a command asks of those who do the work: dispatch, its database, the operator. Each read that fails is a finding."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.cli.connections import Problem, Reached

if TYPE_CHECKING:
    from paddock.kube.builtin import Lease
    from paddock.runners.http.concern import Concern
    from paddock.runners.ledger.views import QueueSummary
    from paddock.views.problems.services import Unread

__all__ = ["ServiceState", "operator_leases", "service_state"]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What the dispatch service says; None where that read failed, which `unread` tells, or where nothing serves it."""

    summary: "QueueSummary | None" = None
    heals: list[dict[str, Any]] | None = None
    concerns: "Sequence[Concern]" = ()
    unread: "Sequence[Unread]" = ()


async def service_state(reached: Reached) -> ServiceState:
    import msgspec

    from paddock.runners.http.concern import Concern
    from paddock.runners.ledger.views import QueueSummary
    from paddock.views.problems.services import DISPATCH, LINE, Unread

    ledger = reached.ledger
    summary, heals, concerns = await asyncio.gather(
        _read(ledger.get("strip")),
        _read(ledger.get("heals?limit=1000")),
        _read(ledger.get("concerns")),
    )
    answers = {
        LINE: summary,
        "the list of what was healed": heals,
        "what it stands on": concerns,
    }
    unread = [Unread(what, str(answer)) for what, answer in answers.items() if isinstance(answer, Problem)]
    if len(unread) == len(answers):
        unread = [Unread(DISPATCH, unread[0].why)]
    return ServiceState(
        None if summary is None or isinstance(summary, Problem) else msgspec.convert(summary, QueueSummary),
        None if isinstance(heals, Problem) else heals,
        () if isinstance(concerns, Problem) else msgspec.convert(concerns or [], list[Concern]),
        unread,
    )


async def _read(answer: Any) -> Any:
    """The answer, or the Problem as one: silence is a finding here, not a reason to show nothing."""
    try:
        return await answer
    except Problem as problem:
        return problem


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
