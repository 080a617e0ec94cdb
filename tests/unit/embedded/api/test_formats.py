import pytest

from paddock.embedded.api.validation.formats import format_check
from paddock.embedded.api.validation.gotext import go_json, go_literal, go_number, go_plain, quoted, shown


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2026-01-01T00:00:00Z", "2026-01-01t00:00:00.123+02:00"],
            ["2026-01-01", "2026-13-01T00:00:00Z", "x"],
        ),
        ("date", ["2024-02-29"], ["2023-02-29", "24-1-1"]),
        ("duration", ["1h30m", "22 ns", "1.5s", "0"], ["soon", ""]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1"]),
        ("ipv6", ["::1", "fe80::2"], ["10.0.0.1", "x"]),
        ("cidr", ["10.0.0.0/8", "10.1.2.3/8", "fd00::/64"], ["10.0.0.0", "10.0.0.0/33"]),
        ("mac", ["00:00:5e:00:53:01", "02-00-5e-10-00-00"], ["00:00:5e", "zz:00:5e:00:53:01"]),
        ("uuid", ["11bf5b37-e0b8-42e0-8dcf-dc8c4aefc000", "11BF5B37E0B842E08DCFDC8C4AEFC000"], ["11bf5b37"]),
        ("uuid4", ["11bf5b37-e0b8-42e0-8dcf-dc8c4aefc000"], ["11bf5b37-e0b8-12e0-8dcf-dc8c4aefc000"]),
        ("email", ["a@b.c", "A B <a@b.c>"], ["a", "@"]),
        ("hostname", ["a.b-c.dev", "localhost"], ["-a", "a..b", "1.2.3.4", "a" * 256]),
        ("uri", ["https://a/b", "/path"], ["relative", "", "a b"]),
        ("byte", ["aGVsbG8="], ["***", ""]),
        ("isbn", ["0321751043", "978-0321751041"], ["0321751044"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
        ("hexcolor", ["#FFF", "a0b1c2"], ["#FFFF"]),
        ("k8s-short-name", ["a-b"], ["A", "a.b", "a" * 64]),
        ("k8s-long-name", ["a.b"], ["a..b"]),
    ],
)
def test_a_format_knows_its_own(name: str, good: list[str], bad: list[str]):
    check = format_check(name)
    assert check is not None
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_a_format_that_is_not_known_is_not_checked():
    assert format_check("fancy") is None
    assert format_check("") is None


def test_values_print_as_they_do_in_go():
    assert go_json({"b": 1, "a": "<&>"}) == '{"a":"\\u003c\\u0026\\u003e","b":1}'
    assert quoted('a"\n\x01') == '"a\\"\\n\\x01"'
    assert [go_number(n) for n in (1, 1.0, 0.5, 1e20, 1e21, 1e-5)] == [
        "1",
        "1",
        "0.5",
        "1" + "0" * 20,
        "1e+21",
        "1e-05",
    ]
    assert [shown(v) for v in ("x", True, None, [1, "a"])] == ['"x"', "true", "null", '[1,"a"]']
    assert go_plain({"b": [1, "x"], "a": None}) == "map[a:<nil> b:[1 x]]"
    assert go_literal({"a": [1]}) == 'map[string]interface {}{"a":[]interface {}{1}}'
