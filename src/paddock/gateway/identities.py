"""Which Mac a request speaks for: from the caches, and afresh where these do not know the key.

A refusal is believed by the Mac, so it rests on a complete fresh read; where none was made, the answer is "later". Fresh reads that
a wrong key causes are bounded: for each name that the caches know, and once for all other names. A request whose key a cached claim
holds is never counted, so that nobody who knows a Mac's name, or invents names, can shut a Mac out.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from paddock.base.clock import Clock
from paddock.base.rate_limit import RateLimit, RateLimits
from paddock.gateway.identity import MacIdentity, Presented, identify, presented, stands
from paddock.gateway.refusals import Later, Refused
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.errors import KubeError
from paddock.kube.objects import KubeObject, key_of
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import Key

__all__ = ["BY_CLAIM", "SILENT_AFTER", "Followed", "FreshHosts", "Identities", "KubeHosts", "of_claim"]

T = TypeVar("T", bound=KubeObject)

BY_CLAIM: Final = "claim"
SILENT_AFTER: Final = 90.0
"""Seconds. A cache whose server said nothing for so long counts as none: bookmarks come about once a minute."""
_TIMEOUT: Final = 5.0
_AGAIN: Final = 5.0

_REFUSED: Final = Refused(401, "no claim holds this key: the Mac was released, or it has another key by now")
_NO_KEY: Final = Refused(401, "the request shows no key of the form `Bearer NAMESPACE/NAME:KEY`")
_AWAY: Final = Later(503, "the API server cannot be asked whose key this is, so that nothing is known about it", _AGAIN)
_TOO_MANY: Final = Later(503, "too many requests with unknown keys came, so that this one was not looked up", 10.0)


class Followed(Protocol[T]):
    """What an informer shows of its cache."""

    @property
    def synced(self) -> asyncio.Event: ...
    @property
    def unreadable(self) -> dict[Key, str]: ...
    @property
    def reader(self) -> CachedReader[T]: ...
    def last_event_age(self) -> float: ...


class FreshHosts(Protocol):
    """Uncached reads. What they answer was true after the call began; whatever cannot be known raises KubeError."""

    async def machine(self, namespace: str, name: str) -> ScalewayAppleSiliconMachine | None: ...

    async def host(self, namespace: str, name: str) -> ScalewayAppleSiliconHost | None: ...

    async def hosts(self) -> Sequence[ScalewayAppleSiliconHost]:
        """All of them, never a part."""
        ...


class KubeHosts:
    """The API server. `namespace` is where the Hosts are; None means in all."""

    def __init__(self, reader: FreshReader, namespace: str | None = None) -> None:
        self._reader, self._namespace = reader, namespace

    async def machine(self, namespace: str, name: str) -> ScalewayAppleSiliconMachine | None:
        return await self._reader.get(ScalewayAppleSiliconMachine, name, namespace, timeout=_TIMEOUT)

    async def host(self, namespace: str, name: str) -> ScalewayAppleSiliconHost | None:
        return await self._reader.get(ScalewayAppleSiliconHost, name, namespace, timeout=_TIMEOUT)

    async def hosts(self) -> Sequence[ScalewayAppleSiliconHost]:
        return (await self._reader.list(ScalewayAppleSiliconHost, self._namespace, timeout=_TIMEOUT)).items


def of_claim(host: ScalewayAppleSiliconHost) -> list[str]:
    """The indexer `BY_CLAIM` of the informer of Hosts: whose claim the Host has."""
    claim = host.spec.claim
    return [] if claim is None else [f"{claim.machine_namespace}/{claim.machine_name}"]


class Identities:
    """`hosts` has the index `BY_CLAIM`. Nothing is kept here but how often a wrong key was looked up."""

    def __init__(
        self,
        machines: Followed[ScalewayAppleSiliconMachine],
        hosts: Followed[ScalewayAppleSiliconHost],
        fresh: FreshHosts,
        clock: Clock,
    ) -> None:
        self._machines, self._hosts, self._fresh = machines, hosts, fresh
        self._of_known = RateLimits(0.1, 3, clock)
        self._of_unknown = RateLimit(1.0, 5, clock)

    async def of(self, authorization: str, *, fresh: bool = False) -> MacIdentity | Refused | Later:
        """The Mac, with what it may do; with `fresh` as the API server has it now.

        The caches may lag, so ask afresh before a Node is made, a Pod deleted, a job handed over, or `gone` said.
        """
        shown = presented(authorization)
        if shown is None:
            return _NO_KEY
        claimed = self._hosts.reader.by_index(BY_CLAIM, f"{shown.namespace}/{shown.name}")
        machine = self._machines.reader.get(shown.name, shown.namespace)
        # A cache that has gone silent says only how the request is counted, and which Host to read first.
        cached = identify(shown, machine, claimed)
        if cached is not None and not fresh and self._current(shown, claimed):
            return cached
        if cached is None:
            known = machine is not None or bool(claimed)
            if not (self._of_known.take((shown.namespace, shown.name)) if known else self._of_unknown.take()):
                return _TOO_MANY
        try:
            return await self._afresh(
                shown, [host for host in claimed if host.metadata.name == cached.host] if cached else []
            )
        except KubeError:
            return _AWAY

    async def still(self, mac: MacIdentity) -> MacIdentity | None:
        """What this Mac may do as the API server has it now; None where its key is over. Raises KubeError where nobody can say."""
        namespace = next(
            (host.metadata.namespace for host in self._of(mac) if host.metadata.name == mac.host), mac.namespace
        )
        host = await self._fresh.host(namespace, mac.host)
        return stands(mac, await self._fresh.machine(mac.namespace, mac.name), host)

    def _of(self, mac: MacIdentity) -> Sequence[ScalewayAppleSiliconHost]:
        return self._hosts.reader.by_index(BY_CLAIM, f"{mac.namespace}/{mac.name}")

    def _current(self, shown: Presented, claimed: Sequence[ScalewayAppleSiliconHost]) -> bool:
        for cache in (self._machines, self._hosts):
            if not cache.synced.is_set() or cache.last_event_age() > SILENT_AFTER:
                return False
        if (shown.namespace, shown.name) in self._machines.unreadable:
            return False
        # An object that no longer decodes keeps its last good state, in which a release may be missing.
        return not any(key_of(host) in self._hosts.unreadable for host in claimed)

    async def _afresh(self, shown: Presented, likely: Sequence[ScalewayAppleSiliconHost]) -> MacIdentity | Refused:
        """The Host that had the key is read alone: that costs the same however many there are. A refusal reads them all.

        The Host is read before the Machine: a Machine that is gone by then had the claim that was read, or an older one.
        """
        for host in likely:
            now = await self._fresh.host(host.metadata.namespace, host.metadata.name)
            machine = await self._fresh.machine(shown.namespace, shown.name)
            if now is not None and (found := identify(shown, machine, [now])) is not None:
                return found
        hosts = await self._fresh.hosts()
        machine = await self._fresh.machine(shown.namespace, shown.name)
        return identify(shown, machine, hosts) or _REFUSED
