import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.embedded.api.managed_fields.fields import (
    EMPTY,
    FieldsError,
    PathSet,
    element_text,
    key_element,
    value_element,
)

ELEMENTS = st.sampled_from(
    ["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"s"', "v:2", "v:10", "v:true", "i:0", "i:10"]
)
PATHS = st.lists(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=8).map(frozenset)


def as_set(fields: PathSet) -> frozenset[tuple[str, ...]]:
    return frozenset(fields.paths())


@given(PATHS)
def test_a_set_has_exactly_the_paths_it_was_made_of(paths: frozenset[tuple[str, ...]]):
    fields = PathSet.of(paths)
    assert as_set(fields) == paths
    assert all(fields.has(path) for path in paths)
    assert bool(fields) == bool(paths)


@given(PATHS)
def test_what_is_written_reads_back_the_same(paths: frozenset[tuple[str, ...]]):
    fields = PathSet.of(paths)
    document = fields.as_fields()
    assert PathSet.parse(document) == fields
    assert PathSet(document) == fields


@given(PATHS, PATHS)
def test_union_difference_and_intersection_are_those_of_sets(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
):
    a, b = PathSet.of(left), PathSet.of(right)
    before = copy.deepcopy((a.tree, b.tree))
    assert as_set(a.union(b)) == left | right
    assert as_set(a.difference(b)) == left - right
    assert as_set(a.intersection(b)) == left & right
    assert a.union(b) == b.union(a)
    assert a.difference(b).union(a.intersection(b)) == a
    assert (a.tree, b.tree) == before


@given(PATHS, PATHS)
def test_taking_branches_takes_all_that_is_below(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]):
    def covered(path: tuple[str, ...]) -> bool:
        return any(path[: len(other)] == other for other in right)

    rest = PathSet.of(left).without_branches(PathSet.of(right))
    assert as_set(rest) == {path for path in left if not covered(path)}


@given(PATHS)
def test_the_empty_set_is_neutral_and_a_difference_without_effect_is_the_set_itself(paths: frozenset[tuple[str, ...]]):
    fields = PathSet.of(paths)
    assert fields.union(EMPTY) == fields
    assert fields.difference(EMPTY) is fields
    assert fields.difference(fields) == EMPTY
    assert fields.intersection(EMPTY) == EMPTY


def test_the_document_is_in_the_order_of_the_real_server():
    fields = PathSet.of(
        [
            ["f:p", "v:10"],
            ["f:p", "v:9"],
            ["f:p", 'v:"a"'],
            ["f:a", "f:z"],
            ["f:a", "f:b"],
            ["f:a"],
            ["f:p", 'k:{"n":2}'],
        ]
    )
    assert list(fields.as_fields()) == ["f:a", "f:p"]
    assert list(fields.as_fields()["f:a"]) == [".", "f:b", "f:z"]
    assert list(fields.as_fields()["f:p"]) == ['k:{"n":2}', "v:9", "v:10", 'v:"a"']


def test_spellings_of_the_same_element_are_one():
    fields = PathSet.parse({"f:p": {'k:{ "b": 1, "a" : "x" }': {}, 'k:{"a":"x","b":1}': {"f:q": {}}}})
    assert fields.as_fields() == {"f:p": {'k:{"a":"x","b":1}': {".": {}, "f:q": {}}}}


def test_unknown_kinds_of_elements_are_dropped():
    assert PathSet.parse({"x:future": {}, "f:a": {}}).as_fields() == {"f:a": {}}


@pytest.mark.parametrize("document", [{"nocolon": {}}, {"k:{": {}}, {"i:x": {}}, {"f:a": 1}, []])
def test_a_document_that_cannot_be_read_is_an_error(document: object):
    with pytest.raises(FieldsError):
        PathSet.parse(document)


def test_paths_read_as_the_server_prints_them():
    assert element_text("f:spec") == ".spec"
    assert element_text(key_element({"proto": "TCP", "port": 80})) == '[port=80,proto="TCP"]'
    assert element_text(value_element("a")) == '[="a"]'
    assert element_text("i:3") == "[3]"


def test_members_are_listed_before_what_is_below_them():
    fields = PathSet.of([["f:a", "f:x"], ["f:b"], ["f:a"]])
    assert list(fields.paths()) == [("f:a",), ("f:b",), ("f:a", "f:x")]
