"""From a change to a reconcile.

Level-triggered: a request names an object and never says what happened to it, because by the time a worker has it, more
may have. The reconciler reads the state, moves it one step and says when to look again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import cancelled_by_somebody
from paddock.kube.errors import ApiError, ConflictError, KubeError
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, key_of
from paddock.kube.stalled import Stalls
from paddock.kube.store import CacheChange
from paddock.kube.workqueue import QueueClosedError, WorkQueue

__all__ = [
    "Controller",
    "Done",
    "Predicate",
    "Reconcile",
    "Request",
    "RequeueAfter",
    "Result",
    "TerminalError",
    "its_controller",
    "itself",
    "step_aside",
]

T = TypeVar("T", bound=KubeObject)
_LOG = get_logger("controller")
_WORKER: ContextVar[asyncio.Semaphore | None] = ContextVar("the workers of the controller that this reconcile runs in")


class step_aside:  # noqa: N801 - it is used as a statement
    """Give the worker back while something slow is waited for; behind the block the reconcile waits for one again.

    The object stays this reconcile's: it is never looked at twice at once. Outside of a controller it changes nothing.
    """

    def __init__(self) -> None:
        self._workers = _WORKER.get()

    async def __aenter__(self) -> None:
        if self._workers is not None:
            self._workers.release()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        # A coroutine that is closed (its process was killed in a simulation) may wait for nothing any more.
        if self._workers is not None and kind is not GeneratorExit:
            await self._workers.acquire()


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Which object to look at. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Look again after that many seconds (more than none, or a worker would spin), even if nothing changes."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"RequeueAfter needs more than {self.seconds} seconds; raise an error to retry at once")


Result = Done | RequeueAfter
Reconcile = Callable[[Request], Awaitable[Result]]
"""Moves one object one step. It may be called at any time and again for the same state, never twice at once for one
object. What it raises is retried with backoff, except a TerminalError."""


class TerminalError(KubeError):
    """Trying again cannot help until the object changes: reported once, not retried."""


Mapper = Callable[[T], Iterable[Request]]
Predicate = Callable[[CacheChange[T]], bool]


def itself(obj: KubeObject) -> Iterable[Request]:
    """Mapper: the object is the one to look at."""
    return [Request(*key_of(obj))]


def its_controller(kind: str) -> Callable[[KubeObject], Iterable[Request]]:
    """Mapper: the owner of that kind which controls the object, in the object's namespace."""

    def mapper(obj: KubeObject) -> Iterable[Request]:
        owners = obj.metadata.owner_references
        return [Request(obj.metadata.namespace, o.name) for o in owners if o.kind == kind and o.controller]

    return mapper


@dataclass(frozen=True, slots=True)
class _Source(Generic[T]):
    informer: Informer[T]
    mapper: Mapper[T]
    predicate: Predicate[T] | None


class Controller:
    """One reconciler, its sources and its workers: so many reconciles run at once, but for those that `step_aside`.

    `run` may be called again after it ended (leadership comes and goes): every start looks at everything once. While it
    does not run, changes are not queued.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
        workers: int = 1,
        timeout: float | None = None,
        backoff: Backoff | None = None,
        rest: Callable[[Request], float] | None = None,
        stalls: Stalls | None = None,
    ) -> None:
        """`stalls` tells on the object itself that it cannot be reconciled. `rest`: for how many seconds an object is left alone after a look at it, where a look is dear; then all that
        happened meanwhile is one look. What happens after a rest is looked at at once.
        """
        self.name = name
        self._reconcile = reconcile
        self._clock = clock
        self._rng = rng
        self._metrics = metrics or KubeMetrics()
        self._workers = workers
        self._timeout = timeout
        self._backoff = backoff
        self._rest = rest
        self._stalls = stalls
        self._sources: list[_Source[Any]] = []
        self._queue: WorkQueue[Request] | None = None

    @property
    def informers(self) -> list[Informer[Any]]:
        return [source.informer for source in self._sources]

    def watches(
        self, informer: Informer[T], mapper: Mapper[T] = itself, *, predicate: Predicate[T] | None = None
    ) -> "Controller":
        """Queue what `mapper` names for every change of the informer that `predicate` lets through.

        For an update both sides are mapped, so that the owner an object had before hears of it, too.
        """
        source = _Source(informer, mapper, predicate)
        self._sources.append(source)
        informer.add_handler(lambda change: self._changed(source, change))
        return self

    def enqueue(self, request: Request, after: float = 0.0) -> None:
        """Ask for a reconcile from outside; without effect while the controller does not run."""
        if self._queue is not None:
            self._queue.add_after(request, after)

    async def run(self) -> None:
        """Reconcile until cancelled or stopped. When it ends, no reconcile is under way."""
        for informer in self.informers:
            await informer.synced.wait()
        queue: WorkQueue[Request] = WorkQueue(
            self.name,
            clock=self._clock,
            rng=self._rng,
            backoff=self._backoff,
            rest=self._rest,
            metrics=self._metrics,
        )
        self._queue = queue
        try:
            for source in self._sources:
                for obj in source.informer.reader.list():
                    self._changed(source, CacheChange("added", None, obj))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._work(queue, group))
        finally:
            self._queue = None
            queue.shut_down()

    async def stop(self) -> None:
        """Let the workers finish what they have in hand, and no more; `run` then returns."""
        if (queue := self._queue) is not None:
            queue.shut_down()
            await queue.drained()

    def _changed(self, source: _Source[Any], change: CacheChange[Any]) -> None:
        if self._queue is None:
            return
        try:
            if source.predicate is not None and not source.predicate(change):
                return
            requests = [r for obj in (change.old, change.new) if obj is not None for r in source.mapper(obj)]
        except Exception:  # noqa: BLE001 - one object that cannot be mapped must not keep the others out of the queue
            _LOG.exception("a mapper or predicate failed", controller=self.name, object=str(key_of(change.obj)))
            return
        for request in requests:
            self._queue.add(request)

    async def _work(self, queue: WorkQueue[Request], group: asyncio.TaskGroup) -> None:
        workers = asyncio.Semaphore(self._workers)
        while True:
            await workers.acquire()
            try:
                request = await queue.get()
            except QueueClosedError:
                return
            group.create_task(self._with_worker(queue, request, workers))

    async def _with_worker(self, queue: WorkQueue[Request], request: Request, workers: asyncio.Semaphore) -> None:
        _WORKER.set(workers)  # of this task alone
        try:
            await self._process(queue, request)
        finally:
            queue.done(request)
            workers.release()

    async def _process(self, queue: WorkQueue[Request], request: Request) -> None:
        began = self._clock.monotonic()
        active = self._metrics.reconcile_active.labels(self.name)
        active.inc()
        context = {"controller": self.name, "namespace": request.namespace, "name": request.name}
        with structlog.contextvars.bound_contextvars(**context):
            try:
                outcome, error = await self._once(queue, request)
                await self._tell(queue, request, error)
                self._metrics.reconciles.labels(self.name, outcome).inc()
            finally:
                active.dec()
                self._metrics.reconcile_seconds.labels(self.name).observe(self._clock.monotonic() - began)

    async def _tell(self, queue: WorkQueue[Request], request: Request, error: BaseException | None) -> None:
        """The object is still in hand: nobody reconciles it while it is written."""
        main = next((source.informer for source in self._sources if source.mapper is itself), None)
        obj = main.reader.get(request.name, request.namespace) if main is not None else None
        if self._stalls is None or obj is None or isinstance(error, ConflictError):
            return
        if error is None:
            await self._stalls.succeeded(self.name, obj)
        else:
            # A terminal error is not tried again, so that there is no second one to wait for.
            failures = None if isinstance(error, TerminalError) else queue.failures(request)
            await self._stalls.failed(self.name, obj, _told(error), failures)

    async def _once(self, queue: WorkQueue[Request], request: Request) -> tuple[str, BaseException | None]:
        """One reconcile and what follows from it: its outcome for the metrics, and the error. Only cancellation comes out."""
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                result: object = await self._reconcile(request)  # whatever it claims to return, look
            if isinstance(result, RequeueAfter):
                queue.forget(request)
                queue.add_after(request, result.seconds)
                return "requeue_after", None
            if isinstance(result, Done):
                queue.forget(request)
                return "done", None
            wrong = TypeError(f"{self.name} must return Done or RequeueAfter, not {type(result).__name__}")
            return self._failed(queue, request, wrong), wrong
        except TerminalError as error:
            queue.forget(request)
            _LOG.error("will not be tried again until it changes", problem=str(error))
            return "terminal", error
        except TimeoutError as error:
            if not deadline.expired():
                return self._failed(queue, request, error), error
            wait = queue.add_rate_limited(request)
            _LOG.warning(
                "took too long", limit=self._timeout, failures=queue.failures(request), again_in=round(wait, 1)
            )
            return "timeout", TimeoutError(f"it took longer than {self._timeout} s")
        except asyncio.CancelledError as error:
            if cancelled_by_somebody():
                raise
            # Not ours: something that the reconcile awaited was cancelled. A worker must survive that.
            return self._failed(queue, request, error), error
        except Exception as error:  # noqa: BLE001 - one object's trouble must never stop the others
            return self._failed(queue, request, error), error

    def _failed(self, queue: WorkQueue[Request], request: Request, error: BaseException) -> str:
        wait = queue.add_rate_limited(request, error.retry_after if isinstance(error, ApiError) else None)
        failures = queue.failures(request)
        if isinstance(error, ConflictError):
            _LOG.info("changed meanwhile, will read again", problem=str(error), again_in=round(wait, 1))
        elif isinstance(error, KubeError):
            _LOG.warning("could not be reconciled", problem=str(error), failures=failures, again_in=round(wait, 1))
        else:
            _LOG.error("could not be reconciled", failures=failures, again_in=round(wait, 1), exc_info=error)
        return "error"


def _told(error: BaseException) -> str:
    """A refusal has its sentence; of anything else the type says most."""
    if isinstance(error, KubeError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
