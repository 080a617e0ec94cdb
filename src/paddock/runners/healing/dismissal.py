"""Taking a runner away at GitHub before the slot that it holds is given to somebody else.

A runner that is offline, or that we have lost sight of, may come online the next moment; if its claim has ended by then, its
account holds one more than its limit. GitHub unregisters no runner that has a job, and gives none to one that is gone: so
only after `GONE` may a claim end.
"""

from enum import StrEnum

from paddock.clients.github import Conflict, GitHub
from paddock.runners.healing.inquiry import Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.ledger import HeldPod, Ledger, Session

__all__ = ["Dismissed", "dismiss", "dismiss_claim"]


class Dismissed(StrEnum):
    GONE = "gone"  # GitHub has no such runner, or has it no more
    BUSY = "busy"  # it has a job: the slot is rightly held
    UNKNOWN = "unknown"  # GitHub did not answer; the next pass asks again
    NOBODY = "nobody"  # there is no installation to ask with


async def dismiss(
    github: GitHub,
    questions: Questions,
    pass_report: PassReport,
    *,
    about: str,
    installation_id: int | None,
    repository: str,
    runner_name: str | None,
) -> Dismissed:
    """See to it that GitHub has no runner of this name. Repeatable; why not is in the report, said of `about`.

    Dying after it leaves a runner that no job can reach, and a claim: the next pass finds it gone and goes on.
    """
    if installation_id is None or "/" not in repository:
        pass_report.refuse(f"{about}: no installation to unregister its runner with")
        return Dismissed.NOBODY
    places = await questions.places(installation_id, repository, runner_name or "")
    if places is None:
        return Dismissed.UNKNOWN  # the trouble is in the report
    if not places:
        return Dismissed.GONE
    ((place, found),) = places
    if found.busy:
        pass_report.refuse(f"{about}: GitHub says that its runner is busy with another job")
        return Dismissed.BUSY
    try:
        await github.remove_runner(place, found.runner_id)
    except Conflict:
        pass_report.refuse(f"{about}: its runner has just been given another job")
        return Dismissed.BUSY
    return Dismissed.GONE


async def dismiss_claim(
    claim: HeldPod,
    session: Session | None,
    ledger: Ledger,
    github: GitHub,
    questions: Questions,
    pass_report: PassReport,
) -> Dismissed:
    """The same for the runner that a claim was minted for; `session` is its Pod's."""
    installations = await ledger.unconfirmed.installations({claim.account_id})
    return await dismiss(
        github,
        questions,
        pass_report,
        about=f"claim of Pod {claim.pod_name}",
        installation_id=installations.get(claim.account_id),
        repository=session.repository if session is not None else "",
        runner_name=claim.runner_name,
    )
