"""What the watches show of Pods, ServiceAccounts and pools, and a fresh look where they do not show it yet."""

from typing import TypeVar

from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import KubeObject
from paddock.kube.reader import CachedReader
from paddock.runners.api import RunnerPool

__all__ = ["Observations"]

T = TypeVar("T", bound=KubeObject)
_PATIENCE = 5.0


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
    ) -> None:
        self.namespace = namespace
        self._client = client
        self._pods = pods
        self._accounts = accounts
        self._pools = pools

    def from_cache(self, name: str, uid: str) -> Pod | None:
        """The Pod as the watch shows it; None means nothing."""
        return _same(self._pods.get(name, self.namespace), uid)

    def pool_at_a_glance(self, name: str) -> RunnerPool | None:
        return self._pools.get(name, self.namespace)

    async def pod(self, name: str, uid: str) -> Pod | None:
        """The Pod, or None when there is none of that uid."""
        return self.from_cache(name, uid) or _same(await self._fresh(Pod, name), uid)

    async def account(self, name: str, uid: str) -> ServiceAccount | None:
        """The ServiceAccount; an empty uid means whichever there is now."""
        found = self._accounts.get(name, self.namespace)
        if found is not None and uid in ("", found.metadata.uid):
            return found
        found = await self._fresh(ServiceAccount, name)
        return found if found is not None and uid in ("", found.metadata.uid) else None

    async def pool(self, name: str) -> RunnerPool | None:
        return self.pool_at_a_glance(name) or await self._fresh(RunnerPool, name)

    async def _fresh(self, kind: type[T], name: str) -> T | None:
        try:
            return await self._client.get(kind, name, self.namespace, timeout=_PATIENCE)
        except NotFoundError:
            return None


def _same(pod: Pod | None, uid: str) -> Pod | None:
    return pod if pod is not None and pod.metadata.uid == uid else None
