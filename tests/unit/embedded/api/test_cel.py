"""The part of CEL that the embedded API evaluates, and that what it does not understand changes nothing."""

import pytest

from paddock.embedded.api.validation.cel import compiled, not_evaluated, rule_violations
from paddock.embedded.definitions import our_definitions
from paddock.hosts.api.machine import KEEPS_ITS_HOST

OLD = {"a": "x", "b": "y", "deep": {"c": "z"}}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("self.a == oldSelf.a", True),
        ("self.b == oldSelf.b", False),
        ("self.b != oldSelf.b", True),
        ("!(self.a == oldSelf.a)", False),
        ("self.b == oldSelf.b || self.a == 'x'", True),
        ("self.a == 'x' && self.b == \"y\"", False),
        ("!has(oldSelf.absent) || oldSelf.absent == ''", True),
        ("has(self.deep.c) && self.deep.c == 'z'", True),
    ],
)
def test_comparisons_and_their_combinations(rule: str, holds: bool) -> None:
    check = compiled(rule)
    assert check is not None
    assert bool(check(OLD | {"b": "other"}, OLD)) is holds


@pytest.mark.parametrize(
    "rule", ["self.a.size() > 3", "self.all(x, x > 1)", "a == b", "self.a ==", "(self.a == 'x'", "'"]
)
def test_what_needs_more_of_cel_is_not_evaluated(rule: str) -> None:
    assert compiled(rule) is None
    assert list(rule_violations({"x-kubernetes-validations": [{"rule": rule}]}, {"a": "x"}, {})) == []


def test_a_missing_field_fails_the_rule_and_a_new_object_has_nothing_to_keep() -> None:
    schema = {
        "properties": {"spec": {"x-kubernetes-validations": [{"rule": "self.a == oldSelf.a", "message": "fixed"}]}}
    }
    (found,) = rule_violations(schema, {"spec": {}}, {"spec": {"a": "x"}})
    assert (found.field, found.message) == ("spec", 'Invalid value: "object": fixed')
    assert list(rule_violations(schema, {"spec": {}}, None)) == []


@pytest.mark.parametrize(
    ("bound", "change", "refused"),
    [
        ("", {"zone": "mars-1"}, False),
        ("scw-applesilicon://fr-par-1/1", {"zone": "mars-1"}, True),
        ("scw-applesilicon://fr-par-1/1", {"type": "M4-S"}, True),
        ("scw-applesilicon://fr-par-1/1", {"source": "Order"}, True),
        ("scw-applesilicon://fr-par-1/1", {"hostCPU": 4}, False),
        ("scw-applesilicon://fr-par-1/1", {"providerID": ""}, False),
    ],
)
def test_what_identifies_the_host_of_a_bound_machine_cannot_change(bound: str, change: dict, refused: bool) -> None:
    old = {"zone": "fr-par-1", "type": "M2-L", "source": "Pool"} | ({"providerID": bound} if bound else {})
    found = list(rule_violations({"x-kubernetes-validations": [KEEPS_ITS_HOST]}, old | change, old))
    assert bool(found) is refused


def test_a_rule_that_is_evaluated_is_not_warned_of_and_every_other_is() -> None:
    kept, asks = [{"rule": "self.a == oldSelf.a"}], [{"rule": "self.a.size() > 3"}]
    here = {"type": "object", "x-kubernetes-validations": kept}
    assert list(not_evaluated({"properties": {"spec": here}})) == []
    assert list(not_evaluated({"properties": {"spec": {**here, "x-kubernetes-validations": asks}}})) == [".spec"]
    assert list(not_evaluated({"properties": {"spec": {"items": here}}})) == [".spec[*]"]
    assert list(not_evaluated({"properties": {"spec": {"additionalProperties": here}}})) == [".spec.*"]
    assert list(not_evaluated({"properties": {"name": {**here, "type": "string"}}})) == [".name"]


def test_every_rule_of_our_own_kinds_is_evaluated() -> None:
    for definition in our_definitions():
        for version in definition["spec"]["versions"]:
            assert list(not_evaluated(version["schema"]["openAPIV3Schema"])) == [], definition["metadata"]["name"]
