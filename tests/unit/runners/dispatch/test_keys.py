"""The cluster's keys: read once, again for an unknown one, and never more often than once a minute."""

import asyncio
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from doubles.clocks import SteppedClock
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from paddock.kube.errors import ForbiddenError
from paddock.runners.dispatch.cluster import KeysUnavailableError, PublishedKeys


class Cluster:
    """As much of a client as reading keys needs."""

    def __init__(self) -> None:
        self.connection = self
        self.keys: list[dict] | None = []
        self.asked = 0

    async def request(self, method: str, path: str, **_: object) -> bytes:
        assert (method, path) == ("GET", "/openid/v1/jwks")
        self.asked += 1
        if self.keys is None:
            raise ForbiddenError("no")
        return json.dumps({"keys": self.keys}).encode()


def published(kid: str, *, kind: str = "EC", **more: str) -> dict:
    if kind == "EC":
        key = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
    else:
        key = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048).public_key(), as_dict=True)
    key.pop("key_ops", None)
    return {**key, "kid": kid, "use": "sig", **more}


def make() -> tuple[Cluster, SteppedClock, PublishedKeys]:
    cluster, clock = Cluster(), SteppedClock()
    return cluster, clock, PublishedKeys(cluster, clock)  # pyright: ignore[reportArgumentType]


async def test_a_key_is_read_once_and_pinned_to_its_algorithm():
    cluster, _, keys = make()
    cluster.keys = [published("a"), published("b", kind="RSA")]
    first, second = await keys.of("a"), await keys.of("b")
    assert first is not None
    assert second is not None
    assert (first.algorithm, second.algorithm) == ("ES256", "RS256")
    assert cluster.asked == 1


async def test_an_unknown_key_is_looked_for_once_a_minute():
    cluster, clock, keys = make()
    cluster.keys = [published("a")]
    assert await keys.of("a") is not None
    cluster.keys = [published("a"), published("b")]
    for _ in range(100):
        assert await keys.of("b") is None
    assert cluster.asked == 1
    clock.step(60.0 - clock.monotonic())
    assert await keys.of("b") is not None
    assert cluster.asked == 2


async def test_a_key_that_was_withdrawn_is_forgotten():
    cluster, clock, keys = make()
    cluster.keys = [published("a"), published("b")]
    assert await keys.of("a") is not None
    cluster.keys = [published("b")]
    clock.step(600.0 - clock.monotonic())
    assert await keys.of("a") is None


async def test_keys_that_were_read_stay_while_the_cluster_is_away():
    cluster, clock, keys = make()
    cluster.keys = [published("a")]
    await keys.of("a")
    cluster.keys = None
    clock.step(700.0 - clock.monotonic())
    assert await keys.of("a") is not None


async def test_without_ever_having_read_keys_nothing_is_known():
    cluster, clock, keys = make()
    cluster.keys = None
    for _ in range(3):
        with pytest.raises(KeysUnavailableError):
            await keys.of("a")
    assert cluster.asked == 1
    clock.step(61.0 - clock.monotonic())
    cluster.keys = [published("a")]
    assert await keys.of("a") is not None


async def test_keys_for_something_else_verify_nothing():
    cluster, _, keys = make()
    cluster.keys = [
        published("enc", use="enc"),
        published("odd", alg="ES512"),
        {"kid": "oct", "kty": "oct", "k": "AAAA"},
        published("good"),
    ]
    assert [await keys.of(kid) for kid in ("enc", "odd", "oct")] == [None, None, None]
    assert await keys.of("good") is not None


async def test_whoever_comes_while_the_keys_are_being_read_waits_for_them():
    """After a restart all Pods ask at once: each that did not wait would cost the cluster a TokenReview."""
    cluster, _, keys = make()
    cluster.keys = [published("a")]
    answer, reading = cluster.request, asyncio.Event()

    async def slowly(method: str, path: str, **how: object) -> bytes:
        await reading.wait()
        return await answer(method, path, **how)

    cluster.request = slowly
    asking = [asyncio.create_task(keys.of("a")) for _ in range(10)]
    await asyncio.sleep(0)
    reading.set()
    assert all(key is not None for key in await asyncio.gather(*asking))
    assert cluster.asked == 1
