"""Bodies that kubectl 1.32 really sent, and what they say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.embedded.api.documents.protobuf import decode
from paddock.embedded.api.status import ApiFailure


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    def field(number: int, value: bytes) -> bytes:
        length = len(value)
        size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
        return bytes([number << 3 | 2]) + size + value

    return b"k8s\0" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


@pytest.mark.parametrize(
    ("typed", "body", "meant"),
    [
        (
            "create ns team-a",
            "6b3873000a0f0a02763112094e616d657370616365121e0a160a067465616d2d6112001a0022002a0032003800420012001a020a001a002200",
            {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team-a"}},
        ),
        (
            "create cm c1 --from-literal=a=b --from-literal=e= --from-file=bin",
            (
                "6b3873000a0f0a0276311209436f6e6669674d6170122f0a120a02633112001a0022002a0032003800420012060a016112016212050a01651200"
                "1a0a0a0362696e120300ff011a002200"
            ),
            {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"name": "c1"},
                "data": {"a": "b", "e": ""},
                "binaryData": {"bin": "AP8B"},
            },
        ),
        (
            "create secret generic s1 --from-literal=pw=hunter2 -n other",
            (
                "6b3873000a0c0a0276311206536563726574122a0a170a02733112001a056f7468657222002a00320038004200120d0a0270771207"
                "68756e746572321a001a002200"
            ),
            {
                "kind": "Secret",
                "apiVersion": "v1",
                "metadata": {"name": "s1", "namespace": "other"},
                "data": {"pw": "aHVudGVyMg=="},
            },
        ),
        (
            "create sa robot",
            "6b3873000a140a027631120e536572766963654163636f756e7412170a150a05726f626f7412001a0022002a003200380042001a002200",
            {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "robot"}},
        ),
        (
            "create rolebinding b --role=r --user=u --serviceaccount=ns:sa --group=g",
            (
                "6b3873000a2b0a1c726261632e617574686f72697a6174696f6e2e6b38732e696f2f7631120b526f6c6542696e64696e6712a6010a110a0162"
                "12001a0022002a0032003800420012260a04557365721219726261632e617574686f72697a6174696f6e2e6b38732e696f1a0175220012270a"
                "0547726f75701219726261632e617574686f72697a6174696f6e2e6b38732e696f1a01672200121a0a0e536572766963654163636f756e7412"
                "001a02736122026e731a240a19726261632e617574686f72697a6174696f6e2e6b38732e696f1204526f6c651a01721a002200"
            ),
            {
                "kind": "RoleBinding",
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": {"name": "b"},
                "subjects": [
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"},
                    {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
                    {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
                ],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            },
        ),
        (
            "create clusterrole cr --verb=get --non-resource-url=/x",
            (
                "6b3873000a2b0a1c726261632e617574686f72697a6174696f6e2e6b38732e696f2f7631120b436c7573746572526f6c65121f0a120a026372"
                "12001a0022002a0032003800420012090a036765742a022f781a002200"
            ),
            {
                "kind": "ClusterRole",
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": {"name": "cr"},
                "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
            },
        ),
        (
            "create token robot --duration=20m --audience=a --audience=b, bound to a Pod",
            (
                "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e5265717565737412360a100a0012001a0022"
                "002a00320038004200121c0a01610a01621a110a03506f64120276311a01702203752d3120b0091a040a0012001a002200"
            ),
            {
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {},
                "spec": {
                    "audiences": ["a", "b"],
                    "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u-1"},
                    "expirationSeconds": 1200,
                },
            },
        ),
        (
            "create token robot",
            (
                "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e52657175657374121a0a100a0012001a0022"
                "002a0032003800420012001a040a0012001a002200"
            ),
            {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}},
        ),
        (
            "auth can-i get /healthz",
            (
                "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a65637441636365737352657669657712"
                "2f0a100a0012001a0022002a003200380042001211120f0a082f6865616c74687a12036765741a08080012001a0020001a002200"
            ),
            {
                "kind": "SelfSubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "metadata": {},
                "spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
            },
        ),
        (
            "auth can-i --list",
            (
                "6b3873000a310a17617574686f72697a6174696f6e2e6b38732e696f2f7631121653656c665375626a65637452756c65735265766965771223"
                "0a100a0012001a0022002a0032003800420012090a0764656661756c741a04180022001a002200"
            ),
            {
                "kind": "SelfSubjectRulesReview",
                "apiVersion": "authorization.k8s.io/v1",
                "metadata": {},
                "spec": {"namespace": "default"},
            },
        ),
        (
            "auth whoami",
            (
                "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a656374526576696577121a0a100a00"
                "12001a0022002a0032003800420012060a040a0012001a002200"
            ),
            {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_kubectl_sends_is_understood(typed, body, meant):
    assert decode(bytes.fromhex(body)) == meant


def test_a_kind_that_is_not_decoded_is_refused_with_the_remedy():
    with pytest.raises(ApiFailure) as refusal:
        decode(envelope("apps/v1", "Deployment", b""))
    assert (refusal.value.code, refusal.value.reason) == (415, "UnsupportedMediaType")
    assert "Deployment" in refusal.value.message
    assert "application/json" in refusal.value.message


def test_labels_times_and_owners_of_an_object_survive():
    owner = bytes.fromhex("0a03506f641a01702203752d312a0276313001")
    raw = bytes.fromhex("0a016e") + b"\x5a\x06\x0a\x01k\x12\x01v" + b"\x6a" + bytes([len(owner)]) + owner
    meta = b"\x0a" + bytes([len(raw)]) + raw
    lease = bytes.fromhex("0a026d65100f22090880b8d2c906108840")
    body = envelope("coordination.k8s.io/v1", "Lease", meta + b"\x12" + bytes([len(lease)]) + lease)
    assert decode(body) == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": "n",
            "labels": {"k": "v"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u-1", "apiVersion": "v1", "controller": True}],
        },
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2025-12-06T21:11:28.000008Z"},
    }


def test_delete_options_are_read_whatever_their_group():
    assert decode(envelope("policy/v1", "DeleteOptions", bytes.fromhex("0800220a4261636b67726f756e64"))) == {
        "kind": "DeleteOptions",
        "apiVersion": "policy/v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_a_negative_number_keeps_its_sign():
    body = envelope("v1", "DeleteOptions", bytes.fromhex("08ffffffffffffffffff01"))
    assert decode(body)["gracePeriodSeconds"] == -1


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s", b"k8s\x00\x12\xff", b"k8s\x00\x0a\x05\x0a\x02v1", b"k8s\x00\x0b"])
def test_damaged_bytes_are_a_bad_request_or_an_unknown_kind(body):
    with pytest.raises(ApiFailure) as refusal:
        decode(body)
    assert refusal.value.code in (400, 415)


@given(st.binary(max_size=80), st.sampled_from(["Secret", "ConfigMap", "Namespace", "Event", "ServiceAccount"]))
def test_no_bytes_at_all_break_the_decoder(raw, kind):
    outcome: dict[str, Any] | int
    try:
        outcome = decode(envelope("v1", kind, raw))
    except ApiFailure as refusal:
        outcome = refusal.code
    assert outcome == 400 if isinstance(outcome, int) else outcome["kind"] == kind
