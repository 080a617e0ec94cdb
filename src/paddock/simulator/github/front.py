"""What stands between the network and the API: latency, faults, who asks, limits, and the audit."""

import random
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from paddock.base.clock import Clock
from paddock.simulator.github import problems
from paddock.simulator.github.access import GitHubCall, authenticated, by_name
from paddock.simulator.github.faults import (
    LIST_FAULTS,
    Fault,
    FaultKind,
    GitHubFaults,
    problem_answer,
    refusal,
    spoiled,
)
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.limits import ApiLimits
from paddock.simulator.github.requests import SCALE_SET_OPERATIONS, GitHubApiRequest, json_answer, operation_of
from paddock.simulator.github.scale_sets_api import ScaleSetsApi
from paddock.simulator.github.wire_places import addressed
from paddock.simulator.service.audit import remember
from paddock.simulator.service.response import ServiceResponse

__all__ = ["AuditEntry", "GitHubFront"]


class AuditEntry(msgspec.Struct, frozen=True):
    """One request as GitHub saw it. `effect` is what really happened, whatever the sender was told."""

    at: datetime
    method: str
    path: str
    operation: str
    status: int
    effect: bool
    fault: str = ""


class GitHubFront:
    """Answers requests. Between two awaits nothing else changes GitHub, so every effect is atomic."""

    def __init__(
        self,
        queue: JobQueue,
        clock: Clock,
        rng: random.Random,
        public_key: RSAPublicKey,
        handlers: dict[str, Callable[[GitHubCall], ServiceResponse]],
        faults: GitHubFaults,
        audit: list[AuditEntry] | None,
        stir: Callable[[], None],
        scale_sets: ScaleSetsApi,
    ) -> None:
        self.limits = ApiLimits(queue.state.behaviour)
        self._queue = queue
        self._state = queue.state
        self._clock = clock
        self._rng = rng
        self._public_key = public_key
        self._handlers = {**handlers, "rate_limit": self._rate_limit}
        self._faults = faults
        self._audit = audit
        self._stir = stir
        self._scale_sets = scale_sets

    async def answer(self, request: GitHubApiRequest) -> ServiceResponse:
        self._state.address = request.base_url
        request = by_name(self._state, request)
        operation, parts = operation_of(request)
        self.limits.enter(request.authorization)
        try:
            fault = self._faults.for_call(operation, self._rng) or self._habit()
            await self._wait(fault)
            if operation == "poll_messages":
                await self._scale_sets.hold(request, parts)
            answer = self._disturbed(request, operation, parts, fault)
        finally:
            self.limits.leave(request.authorization)
        date = format_datetime(self._clock.now(), usegmt=True)
        answer = msgspec.structs.replace(answer, body=addressed(answer.body, request.base_url))
        return self._audited(request, operation, answer.with_headers({"Date": date}), fault)

    async def _wait(self, fault: Fault | None) -> None:
        behaviour = self._state.behaviour
        if behaviour.latency is not None:
            await self._clock.sleep(self._rng.uniform(*behaviour.latency) / behaviour.speed)
        if fault is not None and fault.delay > 0:
            await self._clock.sleep(fault.delay)

    def _habit(self) -> Fault | None:
        """What goes wrong with this call by itself, as the rates say."""
        behaviour, rng = self._state.behaviour, self._rng
        if behaviour.server_error > 0 and rng.random() < behaviour.server_error:
            kinds = (FaultKind.SERVER_ERROR, FaultKind.BAD_GATEWAY, FaultKind.UNAVAILABLE)
            return Fault(kind=rng.choice(kinds))
        if behaviour.lost_answer > 0 and rng.random() < behaviour.lost_answer:
            return Fault(kind=FaultKind.LOST, after_effect=True)
        if behaviour.slow > 0 and rng.random() < behaviour.slow:
            return Fault(kind=FaultKind.SLOW, delay=rng.uniform(*behaviour.slow_by) / behaviour.speed)
        return None

    def _disturbed(
        self, request: GitHubApiRequest, operation: str, parts: dict[str, str], fault: Fault | None
    ) -> ServiceResponse:
        if fault is None or fault.kind is FaultKind.SLOW:
            return self._handle(request, operation, parts)
        if fault.kind in LIST_FAULTS:
            return spoiled(fault, self._handle(request, operation, parts))
        effect = self._handle(request, operation, parts).effect if fault.after_effect else False
        answer = refusal(fault, self.limits.exhausted(self._clock.now()))
        return msgspec.structs.replace(answer, effect=effect)

    def _handle(self, request: GitHubApiRequest, operation: str, parts: dict[str, str]) -> ServiceResponse:
        now = self._queue.settle()
        headers: dict[str, str] = {}
        try:
            if operation == "unknown":
                raise problems.missing()
            if operation in SCALE_SET_OPERATIONS:
                return self._scale_sets.answer(request, operation, parts, now)
            account = authenticated(self._state, self._public_key, request, operation, now)
            call = GitHubCall(request, operation, parts, account, now)
            if operation != "rate_limit":
                headers = self.limits.admit(call)
            return self._handlers[operation](call).with_headers(headers)
        except problems.ProblemError as problem:
            return problem_answer(problem).with_headers(headers)

    def _rate_limit(self, call: GitHubCall) -> ServiceResponse:
        resources = self.limits.view(call)
        return json_answer(200, {"resources": resources, "rate": resources["core"]})

    def _audited(
        self, request: GitHubApiRequest, operation: str, answer: ServiceResponse, fault: Fault | None
    ) -> ServiceResponse:
        if answer.effect:
            self._stir()
        if self._audit is not None:
            remember(
                self._audit,
                AuditEntry(
                    at=self._clock.now(),
                    method=request.method,
                    path=request.path,
                    operation=operation,
                    status=answer.status,
                    effect=answer.effect,
                    fault=fault.kind.value if fault is not None else "",
                ),
            )
        return answer
