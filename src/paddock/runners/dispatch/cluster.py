"""What the cluster tells dispatch: Pods, ServiceAccounts and pools by its watches, and the keys that it signs tokens with."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import jwt
import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError
from paddock.kube.objects import KubeObject
from paddock.kube.reader import CachedReader
from paddock.runners.api import RUNNER_LABEL, RunnerPool

__all__ = ["KeySource", "KeysUnavailableError", "Observations", "PublishedKeys", "VerifyingKey"]

T = TypeVar("T", bound=KubeObject)
_TIMEOUT: Final = 5.0
_PATH: Final = "/openid/v1/jwks"
_ALGORITHMS: Final = {"RSA": "RS256", "EC": "ES256"}
_PAUSE: Final = 60.0
"""An unknown key makes us look again, but not more often than this: anybody can send a token with a made-up key id."""
_OLD: Final = 600.0
"""After this the keys are read again even if nothing is unknown, so that one that was withdrawn is forgotten."""

log = get_logger("dispatch")


class Observations:
    """Reads from the caches of informers; they may be seconds old, and nothing is destroyed on what they say.

    A Pod is one by name *and* uid. What the cache lacks, or shows under another uid, is read fresh: a Pod may ask sooner
    than its creation reaches us. KubeError where that fails.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        pods: CachedReader[Pod],
        accounts: CachedReader[ServiceAccount],
        pools: CachedReader[RunnerPool],
        nodes: CachedReader[Node],
    ) -> None:
        self.namespace = namespace
        self._client = client
        self._pods = pods
        self._accounts = accounts
        self._pools = pools
        self._nodes = nodes

    def from_cache(self, name: str, uid: str) -> Pod | None:
        """The Pod as the watch shows it; None means nothing."""
        return _same(self._pods.get(name, self.namespace), uid)

    def cached_pool(self, name: str) -> RunnerPool | None:
        return self._pools.get(name, self.namespace)

    def node_of(self, pod: Pod | None) -> Node | None:
        """The Node of a Pod as the watch shows it; None means nothing."""
        return self._nodes.get(pod.spec.node_name) if pod is not None and pod.spec.node_name else None

    async def pod(self, name: str, uid: str) -> Pod | None:
        """The Pod, or None when there is none of that uid."""
        return self.from_cache(name, uid) or _same(await self._fresh(Pod, name), uid)

    async def mac_of(self, pod_name: str, uid: str) -> str:
        """The Node that the Pod is bound to, which never changes; empty where it is bound to none, or gone."""
        pod = await self.pod(pod_name, uid)
        if pod is not None and not pod.spec.node_name:
            pod = _same(await self._fresh(Pod, pod_name), uid)
        return pod.spec.node_name if pod is not None else ""

    async def neighbours(self, node: str) -> list[Pod]:
        """All runner Pods of a Node, read fresh: the Pod that a cache does not show yet is the one that would be met."""
        selector = f"spec.nodeName={node}"
        found = await self._client.list(
            Pod, self.namespace, label_selector=f"{RUNNER_LABEL}=true", field_selector=selector, timeout=_TIMEOUT
        )
        return list(found.items)

    async def account(self, name: str, uid: str) -> ServiceAccount | None:
        """The ServiceAccount; an empty uid means whichever there is now."""
        found = self._accounts.get(name, self.namespace)
        if found is not None and uid in ("", found.metadata.uid):
            return found
        found = await self._fresh(ServiceAccount, name)
        return found if found is not None and uid in ("", found.metadata.uid) else None

    async def pool(self, name: str) -> RunnerPool | None:
        return self.cached_pool(name) or await self._fresh(RunnerPool, name)

    async def _fresh(self, kind: type[T], name: str) -> T | None:
        try:
            return await self._client.get(kind, name, self.namespace, timeout=_TIMEOUT)
        except NotFoundError:
            return None


def _same(pod: Pod | None, uid: str) -> Pod | None:
    return pod if pod is not None and pod.metadata.uid == uid else None


class KeysUnavailableError(Exception):
    """The cluster has never told its keys to this process: ask it about each token instead."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key and the one algorithm that it may be used with; a token does not get to choose another."""

    key_id: str
    algorithm: str
    key: Any


class KeySource(Protocol):
    async def of(self, key_id: str) -> VerifyingKey | None:
        """The key of that id; None where the cluster publishes none. KeysUnavailableError if that cannot be known."""
        ...


class PublishedKeys:
    """The keys of `/openid/v1/jwks`, read through the API client and kept."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._keys: dict[str, VerifyingKey] | None = None
        self._asked_at: float | None = None
        self._turn = asyncio.Lock()

    async def of(self, key_id: str) -> VerifyingKey | None:
        known = self._keys is not None and key_id in self._keys
        if not known or self._due(known=True):
            # Also where it was asked a moment ago: the answer may be on its way, and after a restart thousands wait for it.
            async with self._turn:
                if self._due(known=self._keys is not None and key_id in self._keys):
                    await self._read()
        if self._keys is None:
            raise KeysUnavailableError
        return self._keys.get(key_id)

    def _due(self, *, known: bool) -> bool:
        age = None if self._asked_at is None else self._clock.monotonic() - self._asked_at
        return age is None or age >= (_OLD if known else _PAUSE)

    async def _read(self) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            body = await self._client.connection.request("GET", _PATH, timeout=5.0)
            keys = _keys_in(msgspec.json.decode(body))
        except (KubeError, msgspec.DecodeError, TypeError) as error:
            # What was read before stays good: keys are withdrawn rarely, and every claim asks the cluster itself.
            log.warning("the cluster's keys cannot be read; tokens are reviewed one by one", error=str(error))
            return
        if keys:
            self._keys = keys


def _keys_in(document: Any) -> dict[str, VerifyingKey]:
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise TypeError("the document has no list of keys")
    found: dict[str, VerifyingKey] = {}
    for entry in document["keys"]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        algorithm = _ALGORITHMS.get(str(entry.get("kty")))
        if algorithm is None or entry.get("alg", algorithm) != algorithm:
            continue
        try:
            key = jwt.PyJWK(entry, algorithm)
        except jwt.PyJWTError:
            continue  # a key of a kind that we do not know verifies nothing; its tokens are reviewed
        key_id = str(entry.get("kid", ""))
        found[key_id] = VerifyingKey(key_id, algorithm, key.key)
    return found
