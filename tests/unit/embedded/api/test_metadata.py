from typing import Any

import pytest
from unit.embedded.api.widget_kind import WIDGET, widget

from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.validation.metadata import label_key_problems, validate_metadata

_NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", singular="namespace", namespaced=False)


def told(**metadata: Any) -> list[tuple[str, str, str]]:
    return [(c.reason, c.field, c.message) for c in validate_metadata(WIDGET, widget(metadata=metadata))]


def test_good_metadata_passes():
    assert told(labels={"tuist.dev/x": ""}, annotations={"A.b/C": "anything at all"}, finalizers=["h.dev/a"]) == []


def test_a_name_must_be_a_subdomain():
    ((reason, field, message),) = told(name="V_36")
    assert (reason, field) == ("FieldValueInvalid", "metadata.name")
    assert message == (
        'Invalid value: "V_36": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '
        "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
        "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_a_name_is_required():
    assert told(name="") == [
        ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
    ]


def test_a_namespace_has_the_name_of_a_label():
    (cause,) = validate_metadata(_NAMESPACE, {"metadata": {"name": "a.b"}})
    assert cause.message == 'Invalid value: "a.b": must not contain dots'


def test_a_generated_prefix_may_end_in_a_dash():
    assert told(generateName="gen-") == []
    assert told(generateName="Gen-")[0][1] == "metadata.generateName"


def test_a_cluster_scoped_object_has_no_namespace():
    (cause,) = validate_metadata(_NAMESPACE, {"metadata": {"name": "a", "namespace": "b"}})
    assert (cause.reason, cause.message) == ("FieldValueForbidden", "Forbidden: not allowed on this type")


def test_too_long_a_name_says_how_long_it_may_be():
    assert told(name="x" * 254)[0][2].endswith("must be no more than 253 characters")


def test_labels_are_judged_by_key_and_value():
    assert [(field, message.split(": ")[1]) for _, field, message in told(labels={"a b": "not ok"})] == [
        ("metadata.labels", '"a b"'),
        ("metadata.labels", '"not ok"'),
    ]


def test_a_label_key_has_one_slash_at_most():
    assert label_key_problems("a/b/c")[0].startswith("a valid label key must consist of")
    assert label_key_problems("/a") == ["prefix part must be non-empty"]
    empty, wrong = label_key_problems("a/")
    assert empty == "name part must be non-empty"
    assert wrong == (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )


def test_annotations_have_a_total_size():
    assert told(annotations={"k": "v" * 300_000}) == [
        ("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes")
    ]


def test_owner_references_must_be_complete():
    causes = told(ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}])
    assert [(field, message) for _, field, message in causes] == [
        ("metadata.ownerReferences.apiVersion", 'Invalid value: "": version must not be empty'),
        ("metadata.ownerReferences.kind", 'Invalid value: "": must not be empty'),
        ("metadata.ownerReferences.name", 'Invalid value: "": must not be empty'),
        ("metadata.ownerReferences.uid", 'Invalid value: "": must not be empty'),
    ]


def test_only_one_owner_is_the_controller():
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"]
    ((_, field, message),) = told(ownerReferences=owners)
    assert field == "metadata.ownerReferences"
    assert message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_finalizers_are_qualified_names_and_two_of_them_exclude_each_other():
    assert told(finalizers=["bad one"])[0][1] == "metadata.finalizers"
    assert told(finalizers=["orphan", "foregroundDeletion"])[0][2] == (
        'Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set'
    )


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a": 1}}, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        (
            {"labels": []},
            "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            {"finalizers": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string",
        ),
        (
            {"ownerReferences": [{"controller": "yes"}]},
            "json: cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool",
        ),
        ({"name": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        ({"uid": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.uid of type types.UID"),
        (
            {"creationTimestamp": "x"},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
    ],
)
def test_metadata_of_the_wrong_types_is_a_bad_request(metadata: dict[str, Any], text: str):
    with pytest.raises(ApiFailure) as refused:
        told(**metadata)
    assert refused.value.code == 400
    assert refused.value.message == f'Widget in version "v1" cannot be handled as a Widget: {text}'


def test_nulls_in_metadata_read_as_nothing():
    assert told(labels={"a": None}, annotations=None, finalizers=None) == []
    assert len(told(ownerReferences=[None])) == 4
