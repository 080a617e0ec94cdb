import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.embedded.api.selectors import parse_fields, parse_labels
from paddock.embedded.api.status import ApiFailure

SUPPORTED = {"metadata.name", "metadata.namespace", "status.phase", "spec.on"}


def labelled(**labels: str) -> dict[str, str]:
    return labels


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a!=b", {}, {"a": "b"}),
        ("a in (x, y)", {"a": "y"}, {"a": "z"}),
        ("a in (x)", {"a": "x"}, {}),
        ("a notin (x,y)", {"a": "z"}, {"a": "x"}),
        ("a notin (x)", {}, {"a": "x"}),
        ("a", {"a": ""}, {"b": ""}),
        ("!a", {"b": "1"}, {"a": "1"}),
        ("a=,b", {"a": "", "b": "1"}, {"a": "x", "b": "1"}),
        ("a in ()", {"a": ""}, {"a": "x"}),
        ("a in (x,,y)", {"a": ""}, {"a": "z"}),
        ("a>5", {"a": "6"}, {"a": "5"}),
        ("a<5", {"a": "-1"}, {"a": "x"}),
        ("in in (in,notin)", {"in": "notin"}, {"in": "x"}),
        ("x.dev/a=b , c", {"x.dev/a": "b", "c": ""}, {"x.dev/a": "b"}),
    ],
)
def test_a_label_selector_tells_objects_apart(selector: str, matching: dict[str, str], other: dict[str, str]):
    parsed = parse_labels(selector)
    assert parsed.matches(labelled(**matching))
    assert not parsed.matches(labelled(**other))
    assert not parsed.matches_everything


def test_an_empty_selector_matches_everything():
    assert parse_labels("").matches_everything
    assert parse_labels("").matches({})
    assert parse_fields("", SUPPORTED).matches_everything
    assert parse_fields(",,", SUPPORTED).matches({})


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b)", "found ')', expected: ',' or 'end of string'"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("/a", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_label_selector_that_cannot_be_read_is_refused_in_the_words_of_the_real_server(selector: str, message: str):
    with pytest.raises(ApiFailure) as refused:
        parse_labels(selector)
    assert (refused.value.code, refused.value.reason, refused.value.message) == (400, "BadRequest", message)


@given(st.text(alphabet="ab,=!()<> in", max_size=12))
def test_any_text_is_either_a_label_selector_or_a_bad_request(text: str):
    refusals: list[int] = []
    try:
        parse_labels(text).matches(labelled(a="b"))
    except ApiFailure as refused:
        refusals.append(refused.code)
    assert refusals in ([], [400])


def test_a_field_selector_reads_values_of_any_type_as_text():
    obj = {"metadata": {"name": "a"}, "status": {"phase": "Running"}, "spec": {"on": True}}
    assert parse_fields("metadata.name=a,status.phase==Running,spec.on=true", SUPPORTED).matches(obj)
    assert not parse_fields("status.phase!=Running", SUPPORTED).matches(obj)
    assert parse_fields("metadata.namespace=", SUPPORTED).matches(obj)


def test_a_field_selector_shows_the_one_name_it_can_match():
    assert parse_fields("status.phase=x,metadata.name=a", SUPPORTED).name == "a"
    assert parse_fields("metadata.name!=a", SUPPORTED).name is None
    assert parse_fields("metadata.namespace=n", SUPPORTED).namespace == "n"


def test_special_characters_of_a_field_value_are_escaped():
    assert parse_fields(r"metadata.name=a\,b\=c\\d", SUPPORTED).name == r"a,b=c\d"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("spec.zone=x", "field label not supported: spec.zone"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
        (r"metadata.name=a\x", r"invalid field selector: invalid escape sequence: \x"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_field_selector_that_cannot_be_used_is_refused_in_the_words_of_the_real_server(selector: str, message: str):
    with pytest.raises(ApiFailure) as refused:
        parse_fields(selector, SUPPORTED)
    assert (refused.value.code, refused.value.message) == (400, message)
