"""Runbooks are shown where they are shipped, and no other file is."""

from __future__ import annotations

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
    html = "".join(str(node) for node in rendered(text))
    assert "<h1>Title</h1>" in html
    assert "<code>word</code> &lt;b&gt;here" in html
    assert "<li>one goes on</li><li>two</li>" in html
    assert "paddock &lt;x&gt;" in html
