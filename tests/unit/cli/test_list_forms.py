"""JSONPath, columns of one's own and the order of a list, as kubectl has them; and colour for terminals alone."""

import sys
from typing import Any

import pytest

from paddock.cli.colour import coloured, colours
from paddock.cli.list_forms import FormError, by_path, custom_columns, jsonpath

ITEMS: list[dict[str, Any]] = [
    {"metadata": {"name": "b", "labels": {"tuist.dev/fleet": "blue"}}, "spec": {"slots": 10}},
    {"metadata": {"name": "a"}, "spec": {"slots": 9, "zones": ["x", "y"]}},
    {"metadata": {"name": "c"}},
]
LIST = {"kind": "List", "items": ITEMS}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{.items[*].metadata.name}", "b a c"),
        (".kind", "List"),
        ("{.kind}: {.items[0].spec.slots}", "List: 10"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.slots}{"\\n"}{end}', "b\t10\na\t9\nc\t\n"),
        (r"{.items[*].metadata.labels.tuist\.dev/fleet}", "blue"),
        ('{.items[?(@.metadata.name=="a")].spec.zones}', '["x","y"]'),
        ("{range .nothing[*]}x{end}done", "done"),
        ("{.items[*].nothing}", ""),
    ],
)
def test_jsonpath_fills_templates_in(template: str, said: str):
    assert jsonpath(template, LIST) == said


@pytest.mark.parametrize("template", ["{.items", "{range .items[*]}x", "x{end}", "{.items[}"])
def test_a_template_that_cannot_be_read_is_explained(template: str):
    with pytest.raises(FormError):
        jsonpath(template, LIST)


def test_custom_columns_show_what_is_there_and_none_where_nothing_is():
    shown = custom_columns("NAME:.metadata.name,SLOTS:.spec.slots,ZONES:.spec.zones[*]", ITEMS)
    assert [line.split() for line in shown.splitlines()] == [
        ["NAME", "SLOTS", "ZONES"],
        ["b", "10", "<none>"],
        ["a", "9", "x,", "y"],
        ["c", "<none>", "<none>"],
    ]
    assert custom_columns("N:metadata.name", ITEMS, headers=False).split() == ["b", "a", "c"]
    with pytest.raises(FormError, match=r"TITLE:\.path"):
        custom_columns("NAME", ITEMS)


def test_numbers_are_sorted_by_size_and_what_lacks_the_field_comes_first():
    def order(path: str) -> list[str]:
        return [item["metadata"]["name"] for item in sorted(ITEMS, key=by_path(path, lambda item: item))]

    assert order(".spec.slots") == ["c", "a", "b"]
    assert order("{.metadata.name}") == ["a", "b", "c"]


def test_only_whole_cells_are_coloured():
    shown = coloured("NAME  STATE     WHY\nReady-1  stranded  Failed to run\nx  Ready  -")
    assert "\033[31mstranded\033[0m" in shown
    assert "\033[32mReady\033[0m" in shown
    assert "Ready-1" in shown
    assert "  Failed to run" in shown


def test_no_colour_without_a_terminal_or_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"isatty": lambda _: True})())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours() is True
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours() is False
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stdout", type("Pipe", (), {"isatty": lambda _: False})())
    assert colours() is False
