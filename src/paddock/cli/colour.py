"""Colour for people: states in tables, and nothing else. Never in a pipe, in a file, or where NO_COLOR asks for none.

Colours are put in after strangers' control characters were taken out, so every escape sequence is ours.
"""

import os
import re
import sys

__all__ = ["coloured", "colours"]

_GREEN = ("Ready", "Running", "True", "yes", "owned", "pooled", "success", "Succeeded", "ok", "Healthy")
_YELLOW = ("Pending", "Ending", "Unknown", "waiting", "claiming", "releasing", "reinstalling", "starting", "cancelled")
_RED = ("Failed", "False", "stranded", "quarantined", "failure", "gone", "problem")
_CODES = {
    **dict.fromkeys(_GREEN, "32"),
    **dict.fromkeys(_YELLOW, "33"),
    **dict.fromkeys(_RED, "31"),
    "✓": "32",
    "✗": "31",
}
# A whole cell of a table: at the beginning or after two blanks, and before two blanks or the end of the line.
_CELL = re.compile(rf"(?:(?<=  )|(?<=^))(?:{'|'.join(map(re.escape, _CODES))})(?=  |$|: )|[✓✗](?= )", re.MULTILINE)


def colours(*, err: bool = False) -> bool:
    """Whether what is printed now is seen on a terminal that wants colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return (sys.stderr if err else sys.stdout).isatty()


def coloured(text: str) -> str:
    return _CELL.sub(lambda found: f"\033[{_CODES[found[0]]}m{found[0]}\033[0m", text)
