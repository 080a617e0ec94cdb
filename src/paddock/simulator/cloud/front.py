"""What stands between the network and the API: latency, faults, the rate limit and the audit."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from paddock.simulator.cloud import problems
from paddock.simulator.cloud.access import CloudCall, authenticated
from paddock.simulator.cloud.catalogue_api import CatalogueApi
from paddock.simulator.cloud.faults import LIST_FAULTS, CloudFaults, Fault, FaultKind, refusal, spoiled
from paddock.simulator.cloud.hardware import Hardware
from paddock.simulator.cloud.problems import ProblemError
from paddock.simulator.cloud.requests import CloudRequest, operation_of, server_id_of
from paddock.simulator.cloud.servers_api import ServersApi
from paddock.simulator.cloud.state import LateRequest
from paddock.simulator.cloud.support_api import SupportApi
from paddock.simulator.service.audit import remember
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["AuditEntry", "CloudFront"]


class AuditEntry(msgspec.Struct, frozen=True):
    """One request as the cloud saw it. `effect` is what really happened, whatever the sender was told."""

    at: datetime
    method: str
    path: str
    operation: str
    server_id: str
    body: dict[str, object]
    status: int
    effect: bool
    fault: str = ""


class CloudFront:
    """Answers requests. Between two awaits nothing else changes the cloud, so every effect is atomic."""

    def __init__(
        self,
        hardware: Hardware,
        servers: ServersApi,
        catalogue: CatalogueApi,
        support: SupportApi,
        faults: CloudFaults,
        audit: list[AuditEntry] | None,
        on_effect: Callable[[], None],
    ) -> None:
        self._hardware = hardware
        self._state = hardware.state
        self._handlers = {**servers.handlers(), **catalogue.handlers(), **support.handlers()}
        self._faults = faults
        self._audit = audit
        self._on_effect = on_effect
        self._recent: deque[datetime] = deque()
        hardware.replay = self._replay

    async def answer(self, request: CloudRequest) -> ServiceResponse:
        operation, parts = operation_of(request)
        server_id = server_id_of(request, parts)
        clock, behaviour = self._hardware.clock, self._state.behaviour
        if behaviour.latency is not None:
            await clock.sleep(self._hardware.rng.uniform(*behaviour.latency) / behaviour.speed)
        if self._too_many(clock.now()):
            answer = json_answer(429, {"message": "too many requests", "type": "too_many_requests"})
            return self._audited(
                request, operation, server_id, msgspec.structs.replace(answer, headers={"Retry-After": "1"})
            )
        fault = self._faults.for_request(operation, server_id, self._hardware.rng)
        if fault is not None and fault.kind is not FaultKind.LATE and fault.delay > 0:
            await clock.sleep(fault.delay)
        if fault is None or fault.kind is FaultKind.SLOW:
            return self._audited(request, operation, server_id, self._handle(request), fault)
        if fault.kind in LIST_FAULTS:
            return self._audited(request, operation, server_id, spoiled(fault, self._handle(request)), fault)
        if fault.kind is FaultKind.LATE:
            self._postpone(request, fault)
        effect = self._handle(request).effect if fault.after_effect else False
        answer = msgspec.structs.replace(refusal(fault, server_id), effect=effect)
        return self._audited(request, operation, server_id, answer, fault)

    def _handle(self, request: CloudRequest) -> ServiceResponse:
        now = self._hardware.settle()
        return self._perform(request, now)

    def _perform(self, request: CloudRequest, now: datetime) -> ServiceResponse:
        operation, parts = operation_of(request)
        try:
            if operation == "unknown":
                raise problems.missing("route", request.path, bare=True)
            key = authenticated(self._state, request, operation)
            return self._handlers[operation](CloudCall(request, operation, parts, key, now))
        except ProblemError as problem:
            if isinstance(problem.body, str):
                return ServiceResponse(status=problem.status, body=problem.body.encode(), content_type="text/plain")
            return json_answer(problem.status, problem.body)

    def _postpone(self, request: CloudRequest, fault: Fault) -> None:
        at = self._hardware.clock.now() + timedelta(seconds=fault.delay)
        self._state.late.append(
            LateRequest(
                at=at,
                method=request.method,
                path=request.path,
                query=request.query,
                token=request.token,
                body=request.body,
            )
        )

    def _replay(self, late: LateRequest) -> None:
        request = CloudRequest(late.method, late.path, late.query, late.token, late.body)
        operation, parts = operation_of(request)
        answer = self._perform(request, late.at)
        self._audited(request, operation, server_id_of(request, parts), answer, arrived_late=True)

    def _too_many(self, now: datetime) -> bool:
        limit = self._state.behaviour.requests_per_second
        if limit is None:
            return False
        while self._recent and now - self._recent[0] >= timedelta(seconds=1):
            self._recent.popleft()
        if len(self._recent) >= limit:
            return True
        self._recent.append(now)
        return False

    def _audited(
        self,
        request: CloudRequest,
        operation: str,
        server_id: str,
        answer: ServiceResponse,
        fault: Fault | None = None,
        *,
        arrived_late: bool = False,
    ) -> ServiceResponse:
        if answer.effect or (fault is not None and fault.kind is FaultKind.LATE):
            self._on_effect()
        if self._audit is not None:
            name = "arrived_late" if arrived_late else (fault.kind.value if fault is not None else "")
            remember(
                self._audit,
                AuditEntry(
                    at=self._hardware.clock.now(),
                    method=request.method,
                    path=request.path,
                    operation=operation,
                    server_id=server_id,
                    body=request.fields(),
                    status=answer.status,
                    effect=answer.effect,
                    fault=name,
                ),
            )
        return answer
