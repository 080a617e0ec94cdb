"""Secrets, ConfigMaps and Leases."""

from __future__ import annotations

import base64
import copy

from conformance.target import Api, causes, refusal


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_plain_text_in_a_secret_is_encoded_and_wins(api: Api) -> None:
    made = await api.make(
        api.path("secrets"),
        {"metadata": {"name": "s"}, "data": {"a": encoded("old"), "b": encoded("kept")}, "stringData": {"a": "new"}},
    )
    assert made["data"] == {"a": encoded("new"), "b": encoded("kept")}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_plain_text_can_be_patched_into_a_secret(api: Api) -> None:
    await api.make(api.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"a": "1"}})
    changed = await api.patched(f"{api.path('secrets')}/s", {"stringData": {"b": "2"}})
    assert changed["data"] == {"a": encoded("1"), "b": encoded("2")}
    assert "stringData" not in changed


async def test_the_type_of_a_secret_cannot_change(api: Api) -> None:
    await api.make(api.path("secrets"), {"metadata": {"name": "s"}})
    answer = await api.patch(f"{api.path('secrets')}/s", {"type": "example.com/other"})
    refusal(answer, 422, "Invalid")
    assert causes(answer)["type"] == 'FieldValueInvalid: Invalid value: "example.com/other": field is immutable'


async def test_a_secret_must_hold_base64(api: Api) -> None:
    answer = await api.http.post(api.path("secrets"), json={"metadata": {"name": "s"}, "data": {"a": "§§"}})
    refusal(answer, 400, "BadRequest")


async def test_a_tls_secret_needs_its_two_keys(api: Api) -> None:
    answer = await api.http.post(
        api.path("secrets"),
        json={"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "stringData": {"tls.key": "k"}},
    )
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {"data[tls.crt]": "FieldValueRequired: Required value"}


async def test_an_immutable_config_map_does_not_change(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": True})
    path = f"{api.configmaps}/c"
    answer = await api.patch(path, {"data": {"a": "2"}})
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {"data": "FieldValueForbidden: Forbidden: field is immutable when `immutable` is set"}
    answer = await api.patch(path, {"immutable": False})
    assert causes(answer) == {"immutable": "FieldValueForbidden: Forbidden: field is immutable when `immutable` is set"}
    changed = await api.patched(path, {"metadata": {"labels": {"still": "fine"}}})
    assert changed["metadata"]["labels"] == {"still": "fine"}


async def test_an_immutable_secret_does_not_change(api: Api) -> None:
    await api.make(api.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"a": "1"}, "immutable": True})
    answer = await api.patch(f"{api.path('secrets')}/s", {"stringData": {"a": "2"}})
    refusal(answer, 422, "Invalid")
    assert "data" in causes(answer)


async def test_a_lease_is_taken_by_one_of_two_rivals(api: Api) -> None:
    path = api.path("leases", "coordination.k8s.io/v1")
    spec = {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2024-01-01T00:00:00.123456Z"}
    made = await api.make(path, {"metadata": {"name": "l"}, "spec": spec})
    assert made["spec"]["renewTime"] == "2024-01-01T00:00:00.123456Z"
    one, two = copy.deepcopy(made), copy.deepcopy(made)
    one["spec"]["holderIdentity"] = "one"
    two["spec"]["holderIdentity"] = "two"
    assert (await api.http.put(f"{path}/l", json=one)).status_code == 200
    answer = await api.http.put(f"{path}/l", json=two)
    assert refusal(answer, 409, "Conflict").startswith(
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has been modified'
    )
    assert (await api.see(f"{path}/l"))["spec"]["holderIdentity"] == "one"


async def test_a_lease_put_must_name_its_version(api: Api) -> None:
    path = api.path("leases", "coordination.k8s.io/v1")
    made = await api.make(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    del made["metadata"]["resourceVersion"]
    answer = await api.http.put(f"{path}/l", json=made)
    refusal(answer, 422, "Invalid")
    assert "metadata.resourceVersion" in causes(answer)


async def test_a_lease_duration_must_be_positive(api: Api) -> None:
    path = api.path("leases", "coordination.k8s.io/v1")
    answer = await api.http.post(path, json={"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}})
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {
        "spec.leaseDurationSeconds": "FieldValueInvalid: Invalid value: 0: must be greater than 0"
    }


async def test_events_are_selected_by_the_object_they_are_about(api: Api) -> None:
    for number, name in enumerate(("a", "b")):
        involved = {"kind": "Gadget", "name": name, "namespace": api.namespace, "uid": f"u{number}"}
        event = {"metadata": {"name": f"e{number}"}, "involvedObject": involved, "reason": "R", "type": "Normal"}
        await api.make(api.path("events"), event)
    for selector, names in (
        ("involvedObject.name=a", ["e0"]),
        ("involvedObject.kind=Gadget,involvedObject.uid=u1", ["e1"]),
        (f"involvedObject.namespace={api.namespace},reason=R,type=Normal", ["e0", "e1"]),
        ("type!=Normal", []),
    ):
        assert await api.names(api.path("events"), fieldSelector=selector) == names, selector


async def test_an_event_belongs_in_the_namespace_of_its_object(api: Api) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Gadget", "name": "a", "namespace": "elsewhere"}}
    answer = await api.http.post(api.path("events"), json=event)
    assert "involvedObject.namespace" in refusal(answer, 422, "Invalid")
