"""A cache that follows the server: LIST, then WATCH, for ever.

What makes it trustworthy, each rule from a failure seen elsewhere: lists are paged; a 410, in whatever shape, leads to a
list that is *compared* with the cache, so that what was deleted in the gap is seen as deleted; every other end of a
watch, a clean one too, goes through one jittered backoff, so that no answer of the server makes it spin; a stream that
stalls is noticed; a server that refuses is asked again, more and more rarely, and told about once.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.calls import selector_params
from paddock.kube.client import Client
from paddock.kube.decoding import Named, decoder_of
from paddock.kube.diagnosis import Diagnosis, diagnose
from paddock.kube.errors import ApiError, ExpiredError, KubeError, UnreadableObjectError
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, key_of
from paddock.kube.reader import CachedReader
from paddock.kube.store import CacheChange, Indexer, Key, Store
from paddock.kube.watch import Event, WatchTimeouts, watch

__all__ = ["Handler", "Informer"]

T = TypeVar("T", bound=KubeObject)
Handler = Callable[[CacheChange[T]], None]
"""Told of every change, in order, in the loop: must be quick. If it raises, that is logged and counted, no more."""

_LOG = get_logger("informer")


class Informer(Generic[T]):
    """The cache of one kind, of one namespace or all, optionally of a selection.

    `run` never returns by itself and never raises for anything the server does; `synced` is set with the first complete
    list and stays set; `problem` says, for people, why the cache does not follow at the moment (None when it does).
    Objects that do not fit their struct keep their last good state, if there is one, and are named in `unreadable`:
    do not take their absence for evidence.
    """

    HEALTHY_AFTER = 60.0
    RELIST_AFTER_REFUSALS = 3
    PAGE_SIZE: int = 500
    BACKOFF = Backoff()

    def __init__(
        self,
        client: Client,
        kind: type[T],
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.name = name or kind.RESOURCE.qualified
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self.unreadable: dict[Key, str] = {}
        self.relists = 0
        self._client = client
        self._namespace = namespace
        self._selectors = (label_selector, field_selector)
        self._clock = clock
        self._rng = rng
        self._store: Store[T] = Store(
            {index: self._guarded(index, indexer) for index, indexer in (indexers or {}).items()}
        )
        self._handlers: list[Handler[T]] = []
        self._version: str | None = None
        self._announced: Diagnosis | None = None
        self._opened_at: float | None = None
        self._spoken = False
        self._heard_at = clock.monotonic()
        self._metrics = metrics or KubeMetrics()
        self._metrics.informer_synced.labels(self.name).set(0)
        self._metrics.informer_event_age.labels(self.name).set_function(self.last_event_age)

    @property
    def reader(self) -> CachedReader[T]:
        """The cache, for reading. What it says may be seconds old."""
        return CachedReader(self._store)

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell a handler of every change from now on; what is in the cache already, it is told as added."""
        self._handlers.append(handler)
        for obj in self._store:
            self._tell(handler, CacheChange("added", None, obj))

    def last_event_age(self) -> float:
        """Seconds since the server last said anything (a list, an event, a bookmark)."""
        return max(0.0, self._clock.monotonic() - self._heard_at)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        failures = 0
        while True:
            end: KubeError | None = None
            self._opened_at = None
            try:
                if self._version is None:
                    await self._relist()
                await self._watch(self._version or "")
                self._recovered()
            except KubeError as error:
                end = error
            lived = 0.0 if self._opened_at is None else self._clock.monotonic() - self._opened_at
            failures = 1 if lived >= self.HEALTHY_AFTER else failures + 1
            if lived >= self.HEALTHY_AFTER and not self._spoken:
                # Not even a bookmark: a server restored from a backup accepts a version from its lost future and then
                # says nothing. A list costs little and ends the doubt.
                self._version = None
            wait = self._after(end, failures, lived)
            self._metrics.informer_ends.labels(self.name, type(end).__name__ if end else "clean").inc()
            await self._clock.sleep(wait)

    def _after(self, end: KubeError | None, failures: int, lived: float) -> float:
        """What the end of a list or watch means: whether to list again, what to tell people, and how long to wait."""
        if isinstance(end, ExpiredError):
            self._version = None
            # The ordinary fate of a watch that was away for long: list at once. Only one that expires again and again
            # without a healthy minute in between has to wait.
            return 0.0 if failures == 1 else self.BACKOFF.delay(failures - 1, self._rng, end.retry_after)
        if end is None:
            # Normal after `timeoutSeconds`. Attempts keep their distance from beginning to beginning, so that a proxy
            # that cuts every stream after a while does not make us blind for as long again.
            return max(self.BACKOFF.base, self.BACKOFF.delay(failures, self._rng) - lived)
        self._announce(diagnose(end, self.kind.RESOURCE, self._client.config.server))
        retry_after = None
        if isinstance(end, ApiError):
            retry_after = end.retry_after
            if failures >= self.RELIST_AFTER_REFUSALS:
                self._version = None  # a server that was restored from a backup may refuse our version for ever
        return self.BACKOFF.delay(failures, self._rng, retry_after)

    async def _relist(self) -> None:
        objects: dict[Key, T] = {}
        unreadable: dict[Key, str] = {}
        version = ""
        for attempt in (1, 2):
            objects, unreadable = {}, {}
            try:
                async for page in self._client.pages(
                    self.kind,
                    self._namespace,
                    label_selector=self._selectors[0],
                    field_selector=self._selectors[1],
                    limit=self.PAGE_SIZE,
                ):
                    objects.update((key_of(obj), obj) for obj in page.items)
                    unreadable.update(page.unreadable)
                    version = page.metadata.resource_version
                break
            except ExpiredError:
                if attempt == 2:
                    raise
        self.relists += 1
        self._metrics.informer_relists.labels(self.name).inc()
        self._heard_at = self._clock.monotonic()
        self._version = version
        for key, text in unreadable.items():
            self._mark_unreadable(key, text)
        self.unreadable = unreadable
        self._publish(self._store.replace(objects, keep=unreadable))
        if not self.synced.is_set():
            self.synced.set()
            self._metrics.informer_synced.labels(self.name).set(1)

    async def _watch(self, version: str) -> None:
        timeout = self._rng.uniform(300.0, 600.0)
        params = selector_params(*self._selectors) | {"resourceVersion": version}
        await watch(
            self._client.connection,
            self.kind.RESOURCE.path(self._namespace),
            params,
            self._deliver,
            timeout=WatchTimeouts(timeout),
            opened=self._opened,
        )

    def _deliver(self, event: Event) -> None:
        self._heard_at = self._clock.monotonic()
        self._spoken = True
        self._recovered()
        if event.type == "BOOKMARK":
            self._version = decoder_of(Named).decode(event.object).metadata.resource_version
            return
        try:
            obj: T = decoder_of(self.kind).decode(event.object)
        except msgspec.ValidationError as error:
            self._deliver_unreadable(event, str(error))
            return
        key = key_of(obj)
        self.unreadable.pop(key, None)
        self._publish(self._store.remove(key, last=obj) if event.type == "DELETED" else self._store.put(obj))
        self._version = obj.metadata.resource_version

    def _deliver_unreadable(self, event: Event, problem: str) -> None:
        meta = decoder_of(Named).decode(event.object).metadata
        key = (meta.namespace, meta.name)
        if event.type == "DELETED":
            self.unreadable.pop(key, None)
            self._publish(self._store.remove(key))
        else:
            self._mark_unreadable(key, problem)
            self.unreadable[key] = problem
            self._publish([])
        self._version = meta.resource_version

    def _publish(self, changes: list[CacheChange[T]]) -> None:
        self._metrics.informer_objects.labels(self.name).set(len(self._store))
        self._metrics.informer_unreadable.labels(self.name).set(len(self.unreadable))
        for change in changes:
            for handler in self._handlers:
                self._tell(handler, change)

    def _tell(self, handler: Handler[T], change: CacheChange[T]) -> None:
        try:
            handler(change)
        except Exception:  # noqa: BLE001 - a handler's mistake must not cost the others their events
            self._metrics.informer_handler_errors.labels(self.name).inc()
            _LOG.exception("a handler failed", informer=self.name, change=change.kind)

    def _guarded(self, index: str, indexer: Indexer[T]) -> Indexer[T]:
        def guarded(obj: T) -> list[str]:
            try:
                return list(indexer(obj))
            except Exception:  # noqa: BLE001 - as in `_tell`; the object is then not found through this index
                self._metrics.informer_handler_errors.labels(self.name).inc()
                _LOG.exception("an indexer failed", informer=self.name, index=index)
                return []

        return guarded

    def _mark_unreadable(self, key: Key, text: str) -> None:
        if self.unreadable.get(key) != text:
            place = "/".join(part for part in key if part)
            error = UnreadableObjectError(f"{self.name} {place}: {text}")
            _LOG.error(
                "an object does not fit its schema; its cached state is stale", informer=self.name, problem=str(error)
            )

    def _opened(self) -> None:
        self._opened_at = self._clock.monotonic()
        self._spoken = False
        self.problem = None

    def _announce(self, diagnosis: Diagnosis) -> None:
        self.problem = diagnosis.text
        if self._announced is None or self._announced.state != diagnosis.state:
            _LOG.warning("the cache does not follow", informer=self.name, problem=diagnosis.text)
        self._announced = diagnosis

    def _recovered(self) -> None:
        if self._announced is not None:
            _LOG.info("the cache follows again", informer=self.name)
            self._announced = None
