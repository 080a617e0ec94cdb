"""`/api/v1/why/...`: explanations that need the ledger and the cluster together, for page and command line."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.explanation import Explanation
from paddock.base.http_requests import answer, guarded, refusal
from paddock.kube.builtin import Pod
from paddock.kube.reader import CachedReader
from paddock.kube.stalled_condition import with_stall
from paddock.runners.api import RunnerPool
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.http.explain import why_job, why_pod, why_pool
from paddock.runners.http.readonly import PREFIX, job_page, pod_page
from paddock.runners.ledger import Ledger, LedgerError, PoolSignals

__all__ = ["Explainer", "why_routes"]


class Explainer:
    """Reads what an explanation needs; `load` gives that of a pool as status has it. None where the ledger does not know the thing."""

    def __init__(
        self,
        ledger: Ledger,
        load: Callable[[str], Awaitable[PoolSignals]],
        pods: CachedReader[Pod],
        pools: CachedReader[RunnerPool],
        settings: DispatchSettings,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._load = load
        self._pods = pods
        self._pools = pools
        self._settings = settings
        self._clock = clock

    async def job(self, job_id: int) -> Explanation | None:
        page = await job_page(self._ledger, job_id)
        if page is None:
            return None
        pool = self._pools.get(page.job.pool, self._settings.namespace) if page.job is not None else None
        pod = self._pod(lambda pod: page.job is not None and pod.metadata.uid == page.job.pod_uid)
        return why_job(job_id, page, pool, pod, self._settings.healing, self._clock.now())

    async def pod(self, name: str) -> Explanation | None:
        """By name or uid, also when the Pod is gone."""
        pod = self._pod(lambda pod: name in (pod.metadata.name, pod.metadata.uid))
        page = await pod_page(self._ledger, pod.metadata.uid if pod is not None else name)
        if pod is None and page is None:
            return None
        return why_pod(name, pod, page, self._clock.now(), audience=self._settings.audience)

    async def pool(self, name: str) -> Explanation | None:
        pool = self._pools.get(name, self._settings.namespace)
        if pool is None:
            return None
        try:
            signals = await self._load(name)
            sources = [source for source in await self._ledger.scale_sets.views() if source.pool == name]
            unlisted = await self._ledger.scale_sets.not_listed() if pool.spec.job_source == "ScaleSet" else []
        except LedgerError:
            signals, sources, unlisted = None, [], []
        said = why_pool(pool, self._clock.now(), signals, sources, not_listed=unlisted)
        return with_stall(said, pool.status.conditions)

    def _pod(self, meant: Callable[[Pod], bool]) -> Pod | None:
        return next((pod for pod in self._pods.list() if meant(pod)), None)


def why_routes(explainer: Explainer) -> list[Route]:
    async def why(request: Request) -> Response:
        kind, name = request.path_params["kind"], request.path_params["name"]
        match kind:
            case "job" if name.isascii() and name.isdecimal() and len(name) < 19:
                found = await explainer.job(int(name))
            case "pod" | "claim":
                found = await explainer.pod(name)
            case "pool":
                found = await explainer.pool(name)
            case _:
                sentence = "ask about a job by its number, or about a pod, claim or pool"
                return refusal(400, "bad_field", sentence, field="kind")
        if found is None:
            return refusal(404, f"unknown_{kind}", f"no ledger knows {kind} {name}")
        return answer(found)

    return [Route(f"{PREFIX}/why/{{kind}}/{{name}}", guarded(why, LedgerError), methods=["GET"])]
