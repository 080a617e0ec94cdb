"""What the exit code of a command says: the table of the help and of docs/reference/exit-codes.md."""

from typing import Final

__all__ = ["DECLINED", "FAILED", "INTERRUPTED", "JUDGING", "MEANINGS", "NEEDS_A_PERSON", "judged"]

FAILED: Final = 1
NEEDS_A_PERSON: Final = 3
DECLINED: Final = 4
INTERRUPTED: Final = 130

MEANINGS: Final = {
    0: "done, and nothing is wrong",
    FAILED: "it failed; standard error says why, and what to do",
    2: "the command line was not understood",
    NEEDS_A_PERSON: "it worked, and what it found needs a person",
    DECLINED: "nothing was done, because it was not confirmed",
    INTERRUPTED: "interrupted",
}

JUDGING: Final = {
    "status": "something is wrong; the worst is named first",
    "why": "what it explains needs attention",
    "leaks": "something looks like a leak",
    "sweep": "a host that it shows is stranded",
    "doctor": "a check found a problem; each says how to mend it",
    "config check": "a setting cannot work; it is named",
    "init": "the files are written, and a check found a problem",
    "github-app create": "the App is registered, and lacks a right or an event",
    "accounts list": "jobs wait of somebody who is not on the list",
    "node-agent check": "something on this Mac is wrong; each finding names its remedy",
}
"""The commands that judge, each with what its code 3 means."""


def judged(*, needs_a_person: bool) -> int:
    """The code of a command that worked."""
    return NEEDS_A_PERSON if needs_a_person else 0
