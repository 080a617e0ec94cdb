"""Nobody gives away rights that they do not hold."""

import pytest

from paddock.embedded.api.escalation import describe, uncovered

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ([PODS], [PODS]),
        ([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], [PODS]),
        ([{**PODS, "verbs": ["get"]}, {**PODS, "verbs": ["list"]}], [PODS]),
        ([{**PODS, "resources": ["*/status"]}], [{**PODS, "resources": ["pods/status"]}]),
        ([PODS], [{**PODS, "resourceNames": ["one"]}]),
        ([{"nonResourceURLs": ["/logs/*"], "verbs": ["get"]}], [{"nonResourceURLs": ["/logs/a"], "verbs": ["get"]}]),
    ],
)
def test_what_is_held_may_be_given(held: list[dict], wanted: list[dict]):
    assert uncovered(held, wanted) == []


@pytest.mark.parametrize(
    ("held", "wanted", "left"),
    [
        ([PODS], [{**PODS, "verbs": ["get", "delete"]}], [{**PODS, "verbs": ["delete"]}]),
        ([PODS], [{**PODS, "resources": ["*"], "verbs": ["get"]}], [{**PODS, "resources": ["*"], "verbs": ["get"]}]),
        (
            [{**PODS, "verbs": ["get"], "resourceNames": ["one"]}],
            [{**PODS, "verbs": ["get"]}],
            [{**PODS, "verbs": ["get"]}],
        ),
        ([PODS], [{"nonResourceURLs": ["/x"], "verbs": ["get"]}], [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
    ],
)
def test_what_is_not_held_is_named(held: list[dict], wanted: list[dict], left: list[dict]):
    assert uncovered(held, wanted) == left


def test_a_refusal_names_a_right_as_kubernetes_does():
    assert describe({**PODS, "verbs": ["get"]}) == '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
