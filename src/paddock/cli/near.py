"""The word that was meant, where one was mistyped."""

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean machines?`, as the end of a refusal; empty where nothing is close."""
    from difflib import get_close_matches

    close = get_close_matches(word, sorted(known))
    return f" Did you mean {' or '.join(close)}?" if close else ""
