"""Taking a runner away at GitHub before the slot that it holds is given to somebody else.

A runner that is offline, or that we have lost sight of, may come online the next moment; if its claim has ended by then, its
account holds one more than its limit. GitHub unregisters no runner that has a job, and gives none to one that is gone: so
only after `GONE` may a claim end.
"""

from enum import StrEnum

from paddock.clients.github import Conflict, GitHub
from paddock.runners.healing.inquiry import Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.verdicts.pod_facts import RunnerRow
from paddock.runners.ledger import HeldPod
from paddock.runners.ledger.registrations import Registration

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
    registration: Registration | None,
) -> Dismissed:
    """See to it that GitHub does not have this runner. Repeatable; why not is in the report, said of `about`.

    Dying after it leaves a runner that no job can reach, and a claim: the next pass finds it gone and goes on.
    """
    if registration is None:
        return Dismissed.NOBODY
    found = await questions.runners.standing(registration)
    if found.row is RunnerRow.UNKNOWN:
        pass_report.refuse(f"{about}: {found.why}")
        return Dismissed.UNKNOWN
    if found.place is None or found.runner is None:
        return Dismissed.GONE
    if found.row is RunnerRow.BUSY:
        pass_report.refuse(f"{about}: GitHub says that its runner is busy with another job")
        return Dismissed.BUSY
    try:
        await github.remove_runner(found.place, found.runner.runner_id)
    except Conflict:
        pass_report.refuse(f"{about}: its runner has just been given another job")
        return Dismissed.BUSY
    return Dismissed.GONE


async def dismiss_claim(claim: HeldPod, github: GitHub, questions: Questions, pass_report: PassReport) -> Dismissed:
    """The same for the runner that a claim was minted for."""
    about = f"claim of Pod {claim.pod_name}"
    registration = await questions.registration(claim.account_id, claim.runner_name, "", about)
    return await dismiss(github, questions, pass_report, about=about, registration=registration)
