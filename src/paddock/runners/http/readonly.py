"""`/api/v1/...`: what the ledger knows, as JSON, for the page and the command line. It changes nothing.

It shows names of repositories and jobs of every account: serve it where only operators can reach it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from paddock.base.http_requests import Handler, answer, guarded, number_of, refusal
from paddock.base.readable import readable, selected
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.ledger import Completion, Fence, HeldPod, Job, Ledger, LedgerError, Session, Transition
from paddock.runners.ledger.overview import LARGEST_PAGE
from paddock.runners.ledger.views import QueueSummary, WaitingJob

__all__ = ["PREFIX", "JobPage", "PodPage", "job_page", "log_of", "pod_page", "readonly_routes"]

PREFIX: Final = "/api/v1"
_LARGEST_ID = 2**63 - 1
_LONGEST_WINDOW = 86_400


class JobPage(Struct, frozen=True):
    """Everything about a job. `waiting` says why it waits, if it does; `job` is None where only its end was heard."""

    job: Job | None
    waiting: WaitingJob | None
    completion: Completion | None
    sessions: list[Session]
    transitions: list[Transition]


class PodPage(Struct, frozen=True):
    """Everything about a Pod. At most one of `claim` and `fence`; `name` is empty where only its uid was written down."""

    uid: str
    name: str
    claim: HeldPod | None
    fence: Fence | None
    session: Session | None
    transitions: list[Transition]


async def job_page(ledger: Ledger, job_id: int) -> JobPage | None:
    """Everything about a job; None if it was never announced to this ledger."""
    page = JobPage(
        await ledger.jobs.get(job_id),
        await ledger.overview.waiting(job_id),
        await ledger.jobs.completion(job_id),
        await ledger.sessions.of_job(job_id),
        await ledger.transitions.of_job(job_id),
    )
    return None if page.job is None and page.completion is None and not page.transitions else page


async def pod_page(ledger: Ledger, uid_or_name: str) -> PodPage | None:
    """Everything about a Pod, also when it is gone; None if no claim, fence or session ever named it.

    Names may be used again: a name means the last Pod that bore it, a uid means one Pod for ever.
    """
    uid = await ledger.transitions.uid_of(uid_or_name) or uid_or_name
    claim, fence = await ledger.claims.of_pod(uid), await ledger.fences.of_pod(uid)
    session, transitions = await ledger.sessions.of_pod(uid), await ledger.transitions.of_pod(uid)
    if not (claim or fence or session or transitions):
        return None
    names = [one.pod_name for one in (claim, fence, session, *transitions) if one is not None and one.pod_name]
    return PodPage(uid, names[0] if names else "", claim, fence, session, transitions)


async def log_of(ledger: Ledger, uid: str) -> str | None:
    """The kept end of a Pod's log, made readable; None where nothing was ever posted for it."""
    log = await ledger.runner_logs.read(uid)
    return None if log is None else readable(b"".join(piece.content for piece in log.pieces))


def readonly_routes(ledger: Ledger, numbers: Callable[[], Awaitable[QueueSummary]], costs: JobCosts) -> list[Route]:
    """The routes; `numbers` gives the summary, `costs` the jobs that ended. 400 names the parameter, 404 what is not known; 503 with Retry-After while the ledger is away."""
    overview = ledger.overview

    async def summary(_: Request) -> Response:
        return answer(await numbers())

    async def queue(request: Request) -> Response:
        return answer(await overview.queue(number_of(request, "limit", 100, 1, LARGEST_PAGE)))

    async def running(request: Request) -> Response:
        return answer(await overview.running(number_of(request, "limit", 100, 1, LARGEST_PAGE)))

    async def recent(request: Request) -> Response:
        return answer(await costs.recent(number_of(request, "limit", 100, 1, LARGEST_PAGE)))

    async def latency(request: Request) -> Response:
        window = timedelta(seconds=number_of(request, "window", 3600, 60, _LONGEST_WINDOW))
        return answer(await overview.latency(window))

    async def accounts(request: Request) -> Response:
        return answer(await overview.accounts(number_of(request, "limit", LARGEST_PAGE, 1, LARGEST_PAGE)))

    async def heals(request: Request) -> Response:
        return answer(await ledger.heals.newest(number_of(request, "limit", 100, 1, LARGEST_PAGE)))

    async def kills(request: Request) -> Response:
        return answer(await ledger.kills.newest(number_of(request, "limit", 100, 1, LARGEST_PAGE)))

    async def claims(request: Request) -> Response:
        limit = number_of(request, "limit", LARGEST_PAGE, 1, LARGEST_PAGE)
        return answer((await ledger.claims.all())[:limit])

    async def job(request: Request) -> Response:
        text = request.path_params["job_id"]
        job_id = int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else 0
        if not 0 < job_id <= _LARGEST_ID:
            return refusal(400, "bad_field", f"a job's id is a positive number, not {text[:40]!r}", field="job_id")
        page = await job_page(ledger, job_id)
        if page is None:
            return refusal(404, "unknown_job", f"job {job_id} was never announced to this ledger")
        return answer(page)

    async def pod(request: Request) -> Response:
        uid = request.path_params["uid"]
        if not uid.isprintable():
            return refusal(400, "bad_field", "a Pod's uid or name has only printable characters", field="uid")
        page = await pod_page(ledger, uid)
        if page is None:
            return refusal(404, "unknown_pod", "no claim, fence or session ever named a Pod of this uid or name")
        return answer(page)

    async def pod_log(request: Request) -> Response:
        name = request.path_params["uid"]
        if not name.isprintable():
            return refusal(400, "bad_field", "a Pod's uid or name has only printable characters", field="uid")
        return await _log(request, await ledger.transitions.uid_of(name) or name, f"Pod {name}")

    async def job_log(request: Request) -> Response:
        text = request.path_params["job_id"]
        job_id = int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else 0
        if not 0 < job_id <= _LARGEST_ID:
            return refusal(400, "bad_field", f"a job's id is a positive number, not {text[:40]!r}", field="job_id")
        sessions = await ledger.sessions.of_job(job_id)
        ran = [session for session in sessions if session.executed_job_id == job_id] or sessions
        return await _log(request, ran[-1].pod_uid if ran else "", f"job {job_id}")

    async def _log(request: Request, uid: str, about: str) -> Response:
        if "from" in request.query_params:
            return await _log_from(uid, number_of(request, "from", 0, 0, _LARGEST_ID), about)
        lines = number_of(request, "tail", 100_000, 0, 100_000)
        text = await log_of(ledger, uid) if uid else None
        if text is None:
            sentence = f"no log is kept of {about}: its agent posted none, or it is older than a week"
            return refusal(404, "no_log", sentence)
        return PlainTextResponse(selected(text, tail_lines=lines))

    async def _log_from(uid: str, first: int, about: str) -> Response:
        """For who follows: what came since, where to go on, and whether there will be more."""
        log = await ledger.runner_logs.read(uid, after=first) if uid else None
        if log is None:
            return refusal(404, "no_log", f"no log is kept of {about}")
        text = readable(b"".join(piece.content for piece in log.pieces))
        return answer({"text": text, "next": log.next_byte, "ended": log.ended})

    handlers: dict[str, Handler] = {
        "/strip": summary,
        "/queue": queue,
        "/running": running,
        "/recent": recent,
        "/latency": latency,
        "/accounts": accounts,
        "/heals": heals,
        "/kills": kills,
        "/claims": claims,
        "/jobs/{job_id}": job,
        "/jobs/{job_id}/log": job_log,
        "/pods/{uid}": pod,
        "/pods/{uid}/log": pod_log,
    }
    return [Route(PREFIX + path, guarded(handler, LedgerError), methods=["GET"]) for path, handler in handlers.items()]
