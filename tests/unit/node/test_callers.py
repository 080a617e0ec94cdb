"""Who may read logs on a Mac: the cluster decides, and is asked little."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.base.secrets import Secret
from paddock.kube.builtin import SelfSubjectAccessReview, SubjectAccessReview, TokenReview
from paddock.kube.errors import TransportError
from paddock.node.callers import ClusterCallers, RefusedError


class Cluster:
    """Knows one token, and lets members of system:masters do everything."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def create(self, review: Any, *, timeout: float) -> Any:
        self.asked.append(review)
        await self.gate.wait()
        if self.fails:
            raise TransportError("no route, token=tok-good")
        if isinstance(review, TokenReview):
            good = review.spec.token == "tok-good"
            user = TokenReview.User(username="ada", groups=("system:masters",)) if good else None
            return TokenReview(status=TokenReview.Status(authenticated=good, user=user))
        allowed = "system:masters" in review.spec.groups
        return SubjectAccessReview(spec=review.spec, status=SelfSubjectAccessReview.Status(allowed=allowed))


def callers(cluster: Cluster) -> ClusterCallers:
    return ClusterCallers(cluster, "mac-1")  # pyright: ignore[reportArgumentType]


def certificate(common_name: str, *groups: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if common_name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    name, now = x509.Name(attributes), datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.DER)


async def test_the_api_server_is_known_by_its_certificate_and_asked_about_this_node():
    cluster = Cluster()
    caller = await callers(cluster).admit(certificate("apiserver-kubelet-client", "system:masters"), None)
    assert caller.name == "apiserver-kubelet-client"
    [review] = cluster.asked
    assert review.spec.groups == ("system:masters", "system:authenticated")
    wanted = review.spec.resource_attributes
    assert (wanted.verb, wanted.resource, wanted.subresource, wanted.name) == ("get", "nodes", "proxy", "mac-1")


async def test_a_token_that_the_cluster_knows_is_as_good():
    assert (await callers(Cluster()).admit(None, Secret("tok-good"))).name == "ada"


@pytest.mark.parametrize(
    ("shown", "token", "status"),
    [
        (None, None, 401),
        (None, Secret("tok-junk"), 401),
        (None, Secret("x" * 20_000), 401),
        (certificate("system:node:mac-2", "system:nodes"), None, 403),
        (certificate("", "system:masters"), None, 401),
        (b"junk", None, 401),
    ],
    ids=["nothing", "junk token", "huge token", "another Mac", "no name", "junk certificate"],
)
async def test_everybody_else_is_refused(shown: bytes | None, token: Secret | None, status: int):
    with pytest.raises(RefusedError) as refused:
        await callers(Cluster()).admit(shown, token)
    assert refused.value.status == status


async def test_without_an_answer_of_the_cluster_nobody_reads_and_no_token_is_told():
    cluster = Cluster()
    cluster.fails = True
    with pytest.raises(RefusedError, match="cannot be asked") as refused:
        await callers(cluster).admit(None, Secret("tok-good"))
    assert refused.value.status == 503
    assert "tok-good" not in str(refused.value)


async def test_strangers_cannot_make_a_mac_flood_the_api_server():
    cluster = Cluster()
    cluster.gate.clear()
    asked = callers(cluster)
    tasks = [asyncio.create_task(asked.admit(None, Secret(f"junk-{n}"))) for n in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(cluster.asked) == 4
    cluster.gate.set()
    refusals = [
        error.status
        for error in await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(error, RefusedError)
    ]
    assert (refusals.count(429), refusals.count(401)) == (46, 4)
