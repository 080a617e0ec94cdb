"""What a running job's marks cost the cluster: nothing, however often they come; and who may tell them."""

import httpx2
from integration.runners.dispatch.rig import NAMESPACE, Cluster, Rig, RunnerPod, until
from starlette.applications import Starlette

from paddock.kube.builtin import Pod
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.http.internal import internal_routes
from paddock.simulator.transport import InProcessTransport


class CountedReviews(httpx2.AsyncBaseTransport):
    """How many TokenReviews went to the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._inner = cluster.transport
        self.count = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.count += request.url.path.endswith("/tokenreviews")
        return await self._inner.handle_async_request(request)


class Marks:
    """The routes of Pods over these tokens, and what was noted."""

    def __init__(self, tokens: Tokens) -> None:
        self.noted: list[tuple[str, str]] = []
        routes = internal_routes(None, tokens, self._note, None, DispatchSettings()).pods  # pyright: ignore[reportArgumentType]
        self._http = httpx2.AsyncClient(
            transport=InProcessTransport(Starlette(routes=routes)), base_url="http://dispatch/api/internal/runners"
        )

    async def _note(self, uid: str, mark: str) -> None:
        self.noted.append((uid, mark))

    async def tell(self, token: str, mark: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return (await self._http.post("/pods/progress", json={"mark": mark}, headers=headers)).status_code


async def _told(rig: Rig) -> tuple[CountedReviews, Marks, RunnerPod]:
    reviews = CountedReviews(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(reviews)), await rig.cluster.pod(1)
    await until(lambda: dispatcher.service.pods.reader.get(pod.name, NAMESPACE) is not None)
    return reviews, Marks(dispatcher.service.tokens), pod


async def test_marks_of_a_running_job_cost_the_cluster_no_question(rig: Rig) -> None:
    reviews, marks, pod = await _told(rig)
    before = reviews.count
    for number in range(50):
        assert await marks.tell(pod.token, f"{number} running") == 204
    assert marks.noted[-1] == (pod.uid, "49 running")
    assert reviews.count == before


async def test_a_pod_that_is_being_deleted_still_tells_how_far_its_job_is(rig: Rig) -> None:
    reviews = CountedReviews(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(reviews)), await rig.cluster.pod(1)
    marks = Marks(dispatcher.service.tokens)
    await rig.cluster.client.delete(Pod, pod.name, NAMESPACE)

    def deleting() -> bool:
        seen = dispatcher.service.pods.reader.get(pod.name, NAMESPACE)
        return seen is not None and seen.metadata.deletion_timestamp is not None

    await until(deleting)
    before = reviews.count
    assert await marks.tell(pod.token, "7 running") == 204
    assert marks.noted == [(pod.uid, "7 running")]
    assert reviews.count == before + 1, "only the cluster knows whether its token still counts"


async def test_a_token_that_the_cluster_did_not_sign_tells_nothing(rig: Rig) -> None:
    reviews, marks, pod = await _told(rig)
    before = reviews.count
    assert await marks.tell(pod.token[:-4] + "AAAA", "1 running") == 401
    assert marks.noted == []
    assert reviews.count == before
