"""A warm pool does not fall upon a service that has just come back: its Pods ask at moments of their own."""

import random
from collections.abc import Iterable

import httpx2
import pytest
from doubles.clocks import SteppedClock

from paddock.base.secrets import Secret
from paddock.clients.dispatch import HoldTime, PollClient, Served


def served() -> httpx2.Response:
    return httpx2.Response(200, json={"encoded_jit_config": "jit", "owner": "acme", "workflow_job_id": 7})


async def second_request_at(seed: int, first: httpx2.Response | Exception, wait: float = 25.0) -> float:
    """When a Pod asks again after this first answer, on its own clock."""
    answers: Iterable[httpx2.Response | Exception] = iter([first, served()])
    clock, asked = SteppedClock(), []

    def service(_: httpx2.Request) -> httpx2.Response:
        asked.append(clock.monotonic())
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(service)) as http:
        client = PollClient(
            http,
            "http://dispatch.test",
            lambda: Secret("t"),
            clock=clock,
            rng=random.Random(seed),
            hold=HoldTime(clock, wait),
        )
        assert isinstance(await client.next(), Served)
    return asked[1] - asked[0]


@pytest.mark.parametrize(
    ("first", "wait", "earliest", "latest"),
    [
        (httpx2.Response(204), 25.0, 0.0, 0.2),
        (httpx2.Response(204), 0.0, 0.0, 2.0),  # one that does not hold its requests asks every two seconds at most
        (httpx2.ConnectError("the service restarts"), 25.0, 1.0, 2.0),
        (httpx2.Response(500), 25.0, 1.0, 2.0),
        (httpx2.Response(503, headers={"Retry-After": "5"}), 25.0, 5.0, 10.0),
    ],
    ids=["nothing to do", "nothing to do, not held", "no connection", "an error", "asked to come later"],
)
async def test_two_hundred_pods_ask_again_at_two_hundred_moments(
    first: httpx2.Response | Exception, wait: float, earliest: float, latest: float
) -> None:
    moments = sorted([await second_request_at(seed, first, wait) for seed in range(200)])
    assert earliest <= moments[0]
    assert moments[-1] <= latest
    assert len(set(moments)) > 190, "hardly two in the same instant"
    reach = moments[-1] - moments[0]
    assert reach > 0
    for tenth in range(10):
        begins = moments[0] + reach * tenth / 10
        crowd = sum(begins <= moment <= begins + reach / 10 for moment in moments)
        assert crowd < 60, "spread over the whole of it"
