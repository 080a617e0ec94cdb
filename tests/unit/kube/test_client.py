"""What the client sends, and what it makes of the answers."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from unit.kube.fake_api import Answer, AwayError, Call, FakeApi, SocketFrontEnd, status
from unit.kube.things import COLLECTION, Thing, client_of, raw, thing
from unit.kube.virtual_time import virtual

from paddock.base.secrets import Secret
from paddock.kube.builtin import Event, SelfSubjectAccessReview, TokenReview
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    ExpiredError,
    InvalidError,
    NoNameError,
    NotFoundError,
    ThrottledError,
    TransportError,
    UnauthorizedError,
    UnavailableError,
    UnknownKindError,
    UnreadableObjectError,
)
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.kube.reader import FreshReader


async def test_an_object_is_created_read_updated_and_deleted():
    api = FakeApi()
    client = client_of(api)
    created = await client.create(thing("a", size=1))
    assert created.metadata.uid
    assert api.calls[0].body["kind"] == "Thing"
    assert api.calls[0].body["apiVersion"] == "example.dev/v1"
    assert await client.get(Thing, "a", "ns") == created
    with pytest.raises(AlreadyExistsError):
        await client.create(thing("a"))
    await client.update(created)
    with pytest.raises(ConflictError):
        await client.update(created)
    await client.delete(Thing, "a", "ns")
    with pytest.raises(NotFoundError):
        await client.get(Thing, "a", "ns")


async def test_plain_dicts_work_with_a_resource():
    api = FakeApi()
    client = client_of(api)
    await client.create(raw("a", size=4), Thing.RESOURCE)
    found = await client.get(Thing.RESOURCE, "a", "ns")
    assert found["spec"]["size"] == 4
    assert found["kind"] == "Thing"
    listing = await client.list(Thing.RESOURCE, "ns")
    assert [item["metadata"]["name"] for item in listing.items] == ["a"]


async def test_apply_sends_only_what_is_set_and_names_its_manager():
    api = FakeApi()
    client = client_of(api, field_manager="paddock-hosts")
    await client.apply(thing("a", size=3), force=True, subresource="status")
    call = api.calls[0]
    assert call.path.endswith("/things/a/status")
    assert call.headers["content-type"] == "application/apply-patch+yaml"
    assert call.query == {"fieldManager": "paddock-hosts", "force": "true"}
    assert call.body == {
        "apiVersion": "example.dev/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"size": 3},
    }
    await client.apply(thing("a"), field_manager="other", dry_run=True)
    assert api.calls[1].query == {"fieldManager": "other", "dryRun": "All"}


async def test_patches_carry_their_content_type():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    client = client_of(api)
    patched = await client.merge_patch(Thing, "a", {"spec": {"size": 9}}, "ns", subresource="status")
    assert patched.spec.size == 9
    api.faults.append(lambda call: Answer(200, json.dumps(raw("a")).encode()))
    await client.json_patch(Thing, "a", [{"op": "test", "path": "/spec/size", "value": 9}], "ns")
    types = [call.headers["content-type"] for call in api.calls]
    assert types == ["application/merge-patch+json", "application/json-patch+json"]


async def test_a_delete_carries_its_preconditions():
    api = FakeApi()
    obj = api.put(COLLECTION, raw("a"))
    client = client_of(api)
    with pytest.raises(ConflictError):
        await client.delete(Thing, "a", "ns", uid="another")
    await client.delete(
        Thing,
        "a",
        "ns",
        uid=obj["metadata"]["uid"],
        resource_version=obj["metadata"]["resourceVersion"],
        propagation="Foreground",
        grace_period=0,
    )
    assert api.calls[-1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


async def test_an_empty_name_never_reaches_the_server_because_it_would_name_everything():
    api = FakeApi()
    client = client_of(api)
    with pytest.raises(ValueError, match="name"):
        await client.delete(Thing, "", "ns")
    with pytest.raises(ValueError, match="namespace"):
        await client.delete(Thing, "a")
    for name in (".", "..", "a/b", "a%2Fb", "\udcff"):
        with pytest.raises(NoNameError, match="can be called"):
            await client.delete(Thing, name, "ns")
        with pytest.raises(NoNameError, match="can be called"):
            await client.get(Thing, "a", name)
    assert api.calls == []


async def test_a_list_is_complete_or_an_error():
    api = FakeApi()
    for number in range(25):
        api.put(COLLECTION, raw(f"t{number:02}"))
    client = client_of(api)
    listing = await client.list(Thing, limit=10, label_selector="a=b", field_selector="spec.node=x")
    assert len(listing.items) == 25
    assert api.count("list") == 3
    assert api.calls[0].query == {"limit": "10", "labelSelector": "a=b", "fieldSelector": "spec.node=x"}

    api.faults.append(lambda call: status(410, "Expired") if "continue" in call.query else None)
    with pytest.raises(ExpiredError):
        await client.list(Thing, limit=10)
    api.faults.clear()
    api.put(COLLECTION, {"metadata": {"name": "bad", "namespace": "ns"}, "spec": {"size": "large"}})
    with pytest.raises(UnreadableObjectError, match="ns/bad"):
        await client.list(Thing)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(422, "Invalid", "bad", causes=[{"field": "spec.size"}]), InvalidError),
        (Answer(404, b"404 page not found"), UnknownKindError),
        (Answer(503, b"<html>busy</html>"), UnavailableError),
        (Answer(429, b"", {"Retry-After": "3"}), ThrottledError),
        (status(409, "Conflict"), ConflictError),
        (Answer(200, b"not json"), TransportError),
        (Answer(200, b'{"spec": 3}'), UnreadableObjectError),
    ],
)
async def test_answers_become_errors_by_class(answer: Answer, error: type[Exception]):
    api = FakeApi()
    api.faults.append(lambda _call: answer)
    with pytest.raises(error) as caught:
        await client_of(api).get(Thing, "a", "ns")
    if isinstance(caught.value, ThrottledError):
        assert caught.value.retry_after == 3


async def test_an_unknown_kind_is_not_taken_for_a_missing_object():
    api = FakeApi()
    reader = FreshReader(client_of(api))
    assert await reader.get(Thing, "a", "ns") is None
    api.faults.append(lambda _call: Answer(404, b"404 page not found"))
    with pytest.raises(UnknownKindError):
        await reader.get(Thing, "a", "ns")
    with pytest.raises(UnknownKindError):
        await reader.list(Thing)


@virtual
async def test_every_call_ends_within_its_timeout():
    api = FakeApi()
    api.hang = lambda _call: True
    client = client_of(api)
    loop = asyncio.get_running_loop()
    for given, expected in ((None, 30.0), (2.5, 2.5)):
        began = loop.time()
        with pytest.raises(TransportError, match="no answer"):
            await client.get(Thing, "a", "ns", timeout=given)
        assert loop.time() - began == pytest.approx(expected)


async def test_a_server_that_is_away_is_a_transport_error_that_names_it():
    api = FakeApi()

    def away(_call: Call):
        raise AwayError

    api.faults.append(away)
    with pytest.raises(TransportError, match="http://fake did not answer"):
        await client_of(api).create(thing("a"))


async def test_a_token_is_requested_and_hidden():
    api = FakeApi()
    answer = {"status": {"token": "s3cret", "expirationTimestamp": "2026-01-01T00:00:00Z"}}
    api.faults.append(lambda _call: Answer(201, json.dumps(answer).encode()))
    token, expires = await client_of(api).create_token("runner", "ns", audiences=["paddock"], expiration_seconds=600)
    assert token == Secret("s3cret")
    assert expires == datetime(2026, 1, 1, tzinfo=UTC)
    call = api.calls[0]
    assert call.path == "/api/v1/namespaces/ns/serviceaccounts/runner/token"
    assert call.body["spec"] == {"audiences": ["paddock"], "expirationSeconds": 600}
    assert call.body["kind"] == "TokenRequest"


async def test_reviews_are_plain_creates():
    api = FakeApi()
    answer = {"status": {"authenticated": True, "user": {"username": "system:serviceaccount:ns:runner"}}}
    api.faults.append(lambda call: Answer(201, json.dumps(answer).encode()) if "token" in call.path else None)
    review = await client_of(api).create(TokenReview(spec=TokenReview.Spec(token="s3cret")))
    assert review.status.user is not None
    assert "s3cret" not in repr(TokenReview(spec=TokenReview.Spec(token="s3cret")))
    api.faults.append(lambda _call: Answer(201, b'{"status":{"allowed":true}}'))
    attributes = SelfSubjectAccessReview.Spec.Attributes(verb="list", resource="pods")
    asked = SelfSubjectAccessReview(spec=SelfSubjectAccessReview.Spec(resource_attributes=attributes))
    assert (await client_of(api).create(asked)).status.allowed
    assert api.calls[-1].path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def test_the_token_is_sent_and_renewed_once_after_a_401():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    asked: list[str] = []

    class Rotating:
        token = "old"

        async def current(self) -> Identity:
            return Identity(Secret(self.token))

        def rejected(self) -> bool:
            asked.append(self.token)
            self.token = "new"
            return True

    valid = ["new"]
    api.faults.append(
        lambda call: None if call.headers["authorization"].split()[1] in valid else status(401, "Unauthorized")
    )
    client = Client(Config("http://fake", credentials=Rotating()), api.transport())
    assert (await client.get(Thing, "a", "ns")).metadata.name == "a"
    assert asked == ["old"]
    valid.clear()
    with pytest.raises(UnauthorizedError):
        await client.get(Thing, "a", "ns")
    assert len(api.calls) == 4, "one retry, not a loop"


async def test_connections_are_kept_alive():
    api = FakeApi()
    async with SocketFrontEnd(api) as front, Client(Config(front.url)) as client:
        for number in range(20):
            await client.create(thing(f"t{number}"))
        assert front.connections == 1
        await asyncio.gather(*(client.get(Thing, f"t{number}", "ns") for number in range(20)))
        assert front.connections <= 20


async def test_an_identity_never_shows():
    identity = Identity(Secret("s3cret"), "CERT", Secret("k3y"))
    config = Config("https://x", credentials=FixedIdentity(identity))
    assert "s3cret" not in repr(config)
    assert "k3y" not in repr(config)


async def test_fields_whose_kubernetes_names_shout_are_spelled_so():
    from paddock.kube.builtin import Node, NodeSpec, Pod, PodStatus

    api = FakeApi()
    client = client_of(api)
    await client.create(Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(provider_id="scaleway://x")))
    await client.create(Pod(metadata=ObjectMeta(name="p", namespace="ns"), status=PodStatus(pod_ip="1.2.3.4")))
    assert api.calls[0].body["spec"] == {"providerID": "scaleway://x"}
    assert api.calls[1].body["status"] == {"podIP": "1.2.3.4"}
    assert Event.RESOURCE.path("ns") == "/api/v1/namespaces/ns/events"


async def test_a_token_that_no_header_may_carry_is_refused_and_not_quoted():
    config = Config("http://fake", credentials=FixedIdentity(Identity(Secret("s3cret\nX-Evil: 1"))))
    with pytest.raises(ConfigError, match="characters") as caught:
        await Client(config, FakeApi().transport()).get(Thing, "a", "ns")
    assert "s3cret" not in str(caught.value)


async def test_an_address_that_is_none_is_named():
    with pytest.raises(ConfigError, match="server"):
        await Client(Config("http://fake:port:99"), FakeApi().transport()).get(Thing, "a", "ns")


async def test_requests_are_counted_by_answer():
    metrics = KubeMetrics()
    client = client_of(FakeApi(), metrics=metrics)
    await client.create(thing("a"))
    with pytest.raises(NotFoundError):
        await client.get(Thing, "b", "ns")
    for method, code in (("POST", "201"), ("GET", "404")):
        labels = {"method": method, "code": code}
        assert metrics.registry.get_sample_value("paddock_kube_requests_total", labels) == 1
