"""Runners that go wrong again and again, webhooks that do not arrive, and accounts that GitHub took away, as problems. Pure.

Each single case is healed by itself; that they do not end is what a person must know.
"""

from collections.abc import Iterable

from paddock.runners.ledger.views import QueueSummary, RunnerTrouble
from paddock.views.problem import Problem

__all__ = ["of_runners"]

_WHAT = {
    "hung_runner": (
        "runners got no job to work on, and were taken away: they were handed out and GitHub never saw them at work",
        "their jobs go to other runners; look whether the VMs reach GitHub, and at the runner's version in the image",
    ),
    "finished_job_pod": (
        "runners did not end after their jobs, and were taken away minutes later",
        "each place is free again after that; look at what jobs or the image leave running",
    ),
    "died_in_job": (
        "runners died in the middle of their jobs",
        "GitHub fails such a job ten minutes later; look at the memory of the VMs and at what the job does",
    ),
    "runner_too_old": (
        "runners were refused by GitHub, because their version is too old, and got no job",
        "their pool tries one runner at a time; put a newer runner into its image",
    ),
    "still_in_job": (
        "runners stand still in the middle of their jobs: their guests say so, and have seen nothing move for ten minutes",
        "nothing is ended, since GitHub says that they work; look at the job's log and cancel it there",
    ),
}


def of_runners(summary: QueueSummary | None, *, impact: int, unheard: int) -> Iterable[Problem]:
    """`impact` of runners that go wrong, `unheard` of jobs that are not heard of."""
    if summary is None:
        return
    yield from (_problem(one, impact) for one in summary.runner_troubles if one.kind in _WHAT)
    if (lost := summary.undelivered) is not None:
        answered = f"answered {lost.status_code}" if lost.status_code else "not answered at all"
        yield Problem(
            unheard,
            "github",
            f"GitHub's webhooks do not arrive: {lost.events} event{'' if lost.events == 1 else 's'} about jobs could not be delivered, and its last try was {answered}",
            since=lost.since,
            doing="GitHub is asked to deliver them again, and jobs of repositories that used us before are looked for in its lists meanwhile",
            commands=("paddock doctor", "paddock get heals"),
            runbook="PaddockWebhooksLost",
        )
    if logins := summary.not_installed:
        who = logins[0] if len(logins) == 1 else f"{logins[0]} and {len(logins) - 1} more"
        yield Problem(
            unheard,
            "github",
            f"the GitHub App is suspended for {who}, or not installed there any more; none of their jobs is heard of",
            doing="jobs are heard of again as soon as it is lifted; who stays away is not named after a day",
            commands=("paddock get accounts", "paddock doctor"),
            runbook="PaddockJobSourceLost",
        )


def _problem(trouble: RunnerTrouble, impact: int) -> Problem:
    what, then = _WHAT[trouble.kind]
    said = f" ({trouble.said})" if trouble.said else ""
    return Problem(
        impact,
        f"pod {trouble.pod}",
        f"{trouble.pods} of the last {max(trouble.handed, trouble.pods)} {what}{said}",
        since=trouble.since,
        doing=then,
        commands=(f"paddock why pod {trouble.pod}", f"paddock logs {trouble.pod}", "paddock get heals"),
        runbook="PaddockRunnersTooOld" if trouble.kind == "runner_too_old" else "PaddockHealsSustained",
    )
