"""The runbooks, where they are shipped: one page a problem, as the repository has it in `docs/runbooks`."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import htpy as h
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["Runbooks", "rendered"]

_FOLDERS: Final = (Path(__file__).parent / "runbook_pages", Path(__file__).parents[3] / "docs" / "runbooks")
"""Beside the package where it is installed with them, and in a checkout."""
_RUNBOOK: Final = re.compile(r"(\w+)\.md(?:#[\w-]+)?")


class Runbooks:
    """Reads a runbook by its name. Names come from a listing of the folder, so no other file can be asked for."""

    def __init__(self, folder: Path | None = None) -> None:
        found = folder or next((one for one in _FOLDERS if one.is_dir()), None)
        self._files = {path.stem: path for path in found.glob("*.md")} if found is not None else {}

    def href(self, name: str) -> str | None:
        """Its page, or None where it is not shipped."""
        return f"/runbooks/{name}" if name in self._files else None

    def text(self, name: str) -> str | None:
        path = self._files.get(name)
        return path.read_text(encoding="utf-8") if path is not None else None


def rendered(text: str) -> Markup:
    """CommonMark with tables. HTML in the text is shown as text, and no link leaves the page but to another runbook."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    markdown.add_render_rule("fence", _code)
    markdown.add_render_rule("code_block", _code)
    tokens = markdown.parse(text)
    for token in tokens:
        token.attrs.pop("style", None)  # the alignment of columns, which the page's policy refuses
        token.children = list(_safe_links(token.children)) if token.children else token.children
    # Safe as Markup: markdown-it escapes everything that it does not write itself, since `html` is off.
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704


def _code(_: RendererProtocol, tokens: Sequence[Token], index: int, *_options: object) -> str:
    # It scrolls sideways, so a keyboard must be able to reach it.
    return str(h.pre(tabindex="0")[h.code[tokens[index].content.rstrip("\n")]])


def _safe_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Links to other runbooks lead to their pages; any other is named and not followed, since it is not shipped."""
    named: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs.get("href", ""))
            found = _RUNBOOK.fullmatch(target)
            named.append("" if found else target)
            if found:
                token.attrs = {"href": f"/runbooks/{found[1]}"}
                yield token
        elif token.type == "link_close" and (target := named.pop()):
            yield Token("text", "", 0, content=f" ({target})")
        else:
            yield token
