"""The JSONPath subset of printer columns; the expectations marked so were read off a real API server."""

import pytest

from paddock.embedded.api.documents.jsonpath import JsonPathError, compile_path

MACHINE = {
    "metadata": {"annotations": {"x.y/z": "dotted", "plain/key": "slashed"}},
    "spec": {"ports": [22, 443, 8080], "zone": None, "tags": [{"a": 1.5}, {"a": "z"}]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "weight": 1},
            {"type": "Claimed", "status": "True", "weight": 5, "since": "today"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.ports", [[22, 443, 8080]]),
        (".spec.ports[0]", [22]),
        (".spec.ports[-1]", [8080]),
        (".spec.ports[9]", []),
        (".spec.ports[1:3]", [443, 8080]),
        (".spec.ports[*]", [22, 443, 8080]),
        (".spec.tags[*].a", [1.5, "z"]),
        (".metadata.annotations['plain/key']", ["slashed"]),
        (".metadata.annotations.x\\.y/z", ["dotted"]),
        (".metadata.annotations['x\\.y/z']", ["dotted"]),
        (".metadata.annotations.*", ["dotted", "slashed"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"]),
        (".status.conditions[?(@.type=='Claimed')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Claimed"]),
        (".status.conditions[?(@.weight>1)].type", ["Claimed"]),
        (".status.conditions[?(@.weight <= 1)].type", ["Ready"]),
        (".status.conditions[?(@.since)].type", ["Claimed"]),
        ('.status.conditions[?(@.weight=="1")].type', []),
        (".spec.zone", [None]),
        (".spec.missing.deeper", []),
        (".spec.ports.name", []),
        ("{.spec.ports[0]}", [22]),
        ("$.spec.ports[0]", [22]),
    ],
)
def test_a_path_finds_what_it_names(path, found):
    assert compile_path(path)(MACHINE) == found


def test_an_unescaped_dot_in_a_quoted_name_is_a_step_as_on_the_real_server():
    assert compile_path(".metadata.annotations['x.y/z']")(MACHINE) == []


def test_a_lone_dot_is_the_object_itself():
    assert compile_path(".")(MACHINE) == [MACHINE]


@pytest.mark.parametrize("path", [".a[", ".a[?(b)]", ".a[x]", ".a[?(@.b==c)]", ".a.", ".a b"])
def test_a_path_outside_the_subset_is_refused_with_its_text(path):
    with pytest.raises(JsonPathError) as refusal:
        compile_path(path)
    assert path in str(refusal.value)


def test_a_path_is_compiled_once():
    assert compile_path(".spec.zone") is compile_path(".spec.zone")
