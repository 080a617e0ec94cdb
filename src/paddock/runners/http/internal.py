"""What the operator and the Pods ask of the dispatch process: `/api/internal/runners/...`.

Who asks is settled by an `Authenticator` alone; no body names its sender. The load of a pool is told to any ServiceAccount,
because it is aggregates; Pods are retired and reported stopped, and jobs reported killed, only by the operator's own account;
progress and log are a Pod's own word about itself, whose uid is taken from its token.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, Protocol

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.http_requests import RefusedError, answer, decode, guarded, read_body, refusal
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.base.secrets import Secret
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import IdentityError, NotAllowed, PodIdentity, Principal, Unreachable
from paddock.runners.ledger import GivenUp, LedgerError, Pod, PoolSignals
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.ledger.progress import LONGEST_MARK
from paddock.runners.ledger.runner_logs import LARGEST_PIECE
from paddock.runners.pools.retirement import RetirementApi, RetirementUnavailableError

__all__ = [
    "LARGEST_RETIREMENT",
    "PREFIX",
    "AppendLog",
    "AtWork",
    "Authenticator",
    "EndsOnMacs",
    "InternalRoutes",
    "Load",
    "MacsAskedAbout",
    "PodIsStopped",
    "PodsAskedAbout",
    "PodsKilled",
    "PodsToRetire",
    "Progress",
    "Retired",
    "internal_routes",
]

PREFIX: Final = "/api/internal/runners"
LARGEST_RETIREMENT: Final = 64
"""Pods in one request to retire: few enough to be fenced well within the time the operator waits."""

_MOST_DIGITS: Final = 18
_AWAY = (RetirementUnavailableError, LedgerError)
_RETRY_AFTER = {"Retry-After": "2"}
# No control characters: Postgres refuses some of them, and no name of Kubernetes has any.
_Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f]*$")]
_NameOrNone = Annotated[str, Meta(max_length=253, pattern=r"^[^\x00-\x1f]*$")]
_Why = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]


class Authenticator(Protocol):
    async def principal(self, token: Secret, audience: str) -> Principal:
        """Who shows this token, for that audience. IdentityError otherwise, Unreachable among them."""
        ...

    async def waiting(self, token: Secret) -> PodIdentity:
        """Which Pod of a pool shows its token; without a question to the cluster while its keys and the watches are there."""
        ...


Progress = Callable[[str, str], Awaitable[object]]
"""`progress(pod_uid, mark)`: the runner of that Pod got as far as `mark`. A mark that moves is a sign of life."""


class AppendLog(Protocol):
    async def __call__(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool) -> int:
        """Keep what that Pod's runner printed from this byte on; gives the byte that is expected next."""
        ...


class PodsToRetire(Struct, frozen=True):
    class Named(Struct, frozen=True):
        uid: _Name
        name: _Name

    pods: Annotated[tuple[Named, ...], Meta(max_length=LARGEST_RETIREMENT)]
    why: _Why = "the pool needs fewer Pods"


class Retired(Struct, frozen=True):
    retired: tuple[str, ...]


class PodsAskedAbout(Struct, frozen=True):
    pod_uids: Annotated[tuple[_Name, ...], Meta(max_length=LARGEST_RETIREMENT)]


class AtWork(Struct, frozen=True):
    """Which Pods have a job: uid → the account's login."""

    at_work: dict[str, str]


class PodsKilled(Struct, frozen=True):
    """Jobs that the operator ended. That healing ended one is dispatch's own to write down."""

    class Job(Struct, frozen=True):
        key: _Name
        at: Annotated[datetime, Meta(tz=True)] | None
        path: Literal["force", "drain_timeout"]
        why: _Why
        pod_uid: _NameOrNone = ""
        pod_name: _NameOrNone = ""
        account: _NameOrNone = ""
        machine: _NameOrNone = ""

        def given_up(self) -> GivenUp:
            return GivenUp(**msgspec.structs.asdict(self))

    jobs: Annotated[tuple[Job, ...], Meta(max_length=LARGEST_RETIREMENT)]


class MacsAskedAbout(Struct, frozen=True):
    nodes: Annotated[tuple[_Name, ...], Meta(max_length=LARGEST_RETIREMENT)]


class EndsOnMacs(Struct, frozen=True):
    """How the newest runners of these Macs ended."""

    ends: tuple[EndOnMac, ...]


class PodIsStopped(Struct, frozen=True):
    pod_uid: _Name
    pod_name: _Name
    ended_at: Annotated[datetime, Meta(tz=True)]
    why: _Why = "the Pod stopped"
    ended: bool = True


class Load(Struct, frozen=True):
    """`PoolSignals` in the words of the wire, where a pool is a fleet."""

    fleet: str
    claimed: int
    occupied: int
    queued: int
    withheld: int
    oldest_dispatchable_seconds: float
    p95_concurrent_last_hour: int
    not_allowed: int = 0
    resting: int = 0
    held: int = 0
    unminted: int = 0
    executing: int = 0
    too_old: int = 0
    too_old_since: datetime | None = None

    @classmethod
    def of(cls, signals: PoolSignals) -> "Load":
        values = msgspec.structs.asdict(signals)
        return cls(fleet=values.pop("pool"), **values)

    def signals(self) -> PoolSignals:
        values = msgspec.structs.asdict(self)
        return PoolSignals(pool=values.pop("fleet"), **values)


@dataclass(frozen=True, slots=True)
class InternalRoutes:
    """`operators` may be given a listener of their own, with TLS; `pods` come where strangers come, too."""

    operators: list[Route]
    pods: list[Route]

    @property
    def all(self) -> list[Route]:
        return [*self.operators, *self.pods]


class _Mark(Struct, frozen=True):
    mark: Annotated[str, Meta(min_length=1, max_length=LONGEST_MARK, pattern=r"^[^\x00]*$")] | int


def internal_routes(
    retirement: RetirementApi,
    identity: Authenticator,
    progress: Progress,
    append_log: AppendLog,
    settings: DispatchSettings,
) -> InternalRoutes:
    """The routes. Errors of ours are 503 with Retry-After: whoever asks keeps everything as it is and asks again."""
    refusals = RefusalLog(get_logger("dispatch"))

    async def desired_replicas(request: Request) -> Response:
        principal = await _principal(request, identity, settings.operator_audience, refusals)
        if not _is_service_account(principal.username):
            return _unauthorised("only ServiceAccounts may ask for the load of a pool")
        fleet = request.query_params.get("fleet", "")
        if not fleet or not fleet.isprintable():
            return refusal(400, "bad_field", "fleet is missing or no name: say ?fleet=NAME", field="fleet")
        return answer(Load.of(await retirement.signals(fleet)))

    async def retire(request: Request) -> Response:
        await _controller(request)
        asked = decode(await _body(request), PodsToRetire)
        retired = await retirement.retire([Pod(pod.uid, pod.name) for pod in asked.pods], why=asked.why)
        return answer(Retired(tuple(sorted(retired))))

    async def at_work(request: Request) -> Response:
        await _controller(request)
        asked = decode(await _body(request), PodsAskedAbout)
        return answer(AtWork(dict(await retirement.at_work(asked.pod_uids))))

    async def killed(request: Request) -> Response:
        await _controller(request)
        asked = decode(await _body(request), PodsKilled)
        await retirement.killed([job.given_up() for job in asked.jobs])
        return Response(status_code=204)

    async def ends_on(request: Request) -> Response:
        await _controller(request)
        asked = decode(await _body(request), MacsAskedAbout)
        return answer(EndsOnMacs(tuple(await retirement.ends_on(asked.nodes))))

    async def stopped(request: Request) -> Response:
        await _controller(request)
        told = decode(await _body(request), PodIsStopped)
        await retirement.stopped(Pod(told.pod_uid, told.pod_name), told.ended_at, why=told.why, ended=told.ended)
        return Response(status_code=204)

    async def note_progress(request: Request) -> Response:
        uid = await _pod_uid(request, identity, settings.audience, refusals)
        if not uid:
            return refusal(403, "no_pod", "the token is not bound to a Pod: use the Pod's own projected token")
        await progress(uid, str(decode(await _body(request), _Mark).mark))
        return Response(status_code=204)

    async def add_log(request: Request) -> Response:
        principal = await _principal(request, identity, settings.audience, refusals)
        if not principal.pod_uid:
            return refusal(403, "no_pod", "the token is not bound to a Pod: use the Pod's own projected token")
        first = request.query_params.get("from", "0")
        if not (first.isascii() and first.isdecimal() and len(first) <= _MOST_DIGITS):
            return refusal(400, "bad_field", "from is the number of the first byte of the body", field="from")
        content = await read_body(request, limit=LARGEST_PIECE, seconds=settings.body_timeout)
        ended = request.query_params.get("end") == "true"
        return answer({"next": await append_log(principal.pod_uid, int(first), content, ended=ended)})

    async def _controller(request: Request) -> None:
        principal = await _principal(request, identity, settings.operator_audience, refusals)
        if principal.username != settings.controller:
            refusals.refused(request.url.path, "only the operator may say what becomes of Pods", who=principal.username)
            raise RefusedError(_unauthorised(f"only {settings.controller} may say what becomes of Pods"))

    async def _body(request: Request) -> bytes:
        return await read_body(request, limit=settings.body_limit, seconds=settings.body_timeout)

    return InternalRoutes(
        operators=[
            Route(f"{PREFIX}/desired_replicas", guarded(desired_replicas, *_AWAY), methods=["GET"]),
            Route(f"{PREFIX}/pods/retire", guarded(retire, *_AWAY), methods=["POST"]),
            Route(f"{PREFIX}/pods/at-work", guarded(at_work, *_AWAY), methods=["POST"]),
            Route(f"{PREFIX}/pods/killed", guarded(killed, *_AWAY), methods=["POST"]),
            Route(f"{PREFIX}/macs/ends", guarded(ends_on, *_AWAY), methods=["POST"]),
            Route(f"{PREFIX}/pods/stopped", guarded(stopped, *_AWAY), methods=["POST"]),
        ],
        pods=[
            Route(f"{PREFIX}/pods/log", guarded(add_log, *_AWAY), methods=["POST"]),
            Route(f"{PREFIX}/pods/progress", guarded(note_progress, *_AWAY), methods=["POST"]),
        ],
    )


def _shown(request: Request) -> Secret:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(_unauthorised("show a ServiceAccount's token as Authorization: Bearer"))
    return Secret(token.strip())


async def _principal(request: Request, identity: Authenticator, audience: str, refusals: RefusalLog) -> Principal:
    token = _shown(request)
    try:
        return await identity.principal(token, audience)
    except IdentityError as error:
        raise _refused(request, error, refusals) from None


async def _pod_uid(request: Request, identity: Authenticator, audience: str, refusals: RefusalLog) -> str:
    """The uid of the Pod that asks; empty where its token is bound to none.

    Every VM with a job says every few seconds how far it is: a TokenReview each would be hundreds a second from a large fleet. So
    the token is checked as that of a Pod that waits. The cluster is asked about those that may not wait any more, such as one
    that is being deleted while its job runs.
    """
    token = _shown(request)
    try:
        return (await identity.waiting(token)).uid
    except NotAllowed:
        return (await _principal(request, identity, audience, refusals)).pod_uid
    except IdentityError as error:
        raise _refused(request, error, refusals) from None


def _refused(request: Request, error: IdentityError, refusals: RefusalLog) -> RefusedError:
    if isinstance(error, Unreachable):
        sentence = "the token cannot be verified now: ask again"
        return RefusedError(refusal(503, "no_cluster", sentence, headers=_RETRY_AFTER))
    # Why is for our log; whoever guesses tokens learns nothing from us.
    refusals.refused(request.url.path, str(error), sender=request.client.host if request.client else "")
    return RefusedError(_unauthorised("the token is not accepted"))


def _unauthorised(sentence: str) -> Response:
    return refusal(401, "unauthorised", sentence, headers={"WWW-Authenticate": "Bearer"})


def _is_service_account(username: str) -> bool:
    parts = username.split(":")
    return parts[:2] == ["system", "serviceaccount"] and len(parts) == 4 and all(parts)
