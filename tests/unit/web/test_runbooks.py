"""Runbooks are shown where they are shipped, and no other file is."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.web.runbooks import Runbooks, rendered


def test_only_files_of_the_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "Stranded.md").write_text("# Stranded\n")
    (tmp_path / "secret.md").write_text("no")
    runbooks = Runbooks(tmp_path / "runbooks")
    assert runbooks.href("Stranded") == "/runbooks/Stranded"
    assert runbooks.href("../secret") is None
    assert runbooks.text("../secret") is None


def test_headings_lists_and_code_are_rendered_and_html_is_text() -> None:
    text = "# Title\n\nA `word` <b>here</b>.\n\n- one\n  goes on\n- two\n\n```console\npaddock <x>\n```\n"
    html = rendered(text)
    assert "<h1>Title</h1>" in html
    assert "<code>word</code> &lt;b&gt;here" in html
    assert "<li>one\ngoes on</li>\n<li>two</li>" in html
    assert "paddock &lt;x&gt;" in html


def test_a_table_is_a_table() -> None:
    html = rendered("| reason | what to do |\n|---|--:|\n| `NoHost` | wait, or [look](PaddockNoAvailableHost.md) |\n")
    assert "<table>" in html
    assert "<th>reason</th>" in html
    assert "<td><code>NoHost</code></td>" in html
    assert '<a href="/runbooks/PaddockNoAvailableHost">look</a>' in html
    assert "|" not in html
    assert "style=" not in html


def test_no_text_becomes_a_script() -> None:
    html = rendered(
        "<script>alert(1)</script>\n\n# A <img src=x onerror=alert(2)>\n\n| <script> |\n|---|\n| <script>x</script> |\n\n"
        "```<script>\n<script>\n```\n\n![picture](javascript:alert(3))\n"
    )
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_links_lead_to_runbooks_only_and_others_are_named() -> None:
    html = rendered(
        "[a](Other.md) [b](Other.md#what-to-do) [c](../../deploy/alerts/x.yaml) [d](https://x.test/) [e](javascript:x)"
    )
    assert '<a href="/runbooks/Other">a</a>' in html
    assert '<a href="/runbooks/Other">b</a>' in html
    assert "c (../../deploy/alerts/x.yaml)" in html
    assert "d (https://x.test/)" in html
    assert html.count("<a ") == 2


def test_every_shipped_runbook_renders_without_pipes_left_over() -> None:
    retirement = Runbooks()
    assert retirement.href("conditions")
    for name in retirement._files:
        text = retirement.text(name)
        assert text
        html = rendered(text)
        assert html.startswith("<h1>")
        assert html.count("<table>") == len(re.findall(r"^\|-", text, re.MULTILINE))
        assert "<p>|" not in html
