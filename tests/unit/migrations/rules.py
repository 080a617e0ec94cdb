"""What a migration may do while processes of the release before it still run: widen, never take away.

The whole policy is in docs/design/decisions (a database under a rolling upgrade). This is the part that can be read off the
text; what it cannot see (a narrower check, a changed function) is found by replaying an older release.
"""

import re

__all__ = ["contracted_since", "violations"]

_CONTRACT = re.compile(r"^-- contract: since (\d+\.\d+\.\d+)$", re.MULTILINE)
_TAKES_AWAY = (
    (
        r"\bDROP\s+(TABLE|VIEW|FUNCTION|TYPE|SEQUENCE|SCHEMA|INDEX|TRIGGER)\b",
        "drops something that the older release may use",
    ),
    (
        r"\bDROP\s+(COLUMN\b|(?!TABLE|VIEW|FUNCTION|TYPE|SEQUENCE|SCHEMA|INDEX|TRIGGER|CONSTRAINT|DEFAULT|NOT\b|COLUMN|EXPRESSION|IDENTITY)\w+)",
        "drops a column that the older release may read",
    ),
    (r"\bDROP\s+DEFAULT\b", "drops a default on which the older release's inserts may count"),
    (r"\bRENAME\b", "renames what the older release knows under its old name"),
    (r"\bALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE\b", "changes the type of a column under the older release"),
    (r"\bTRUNCATE\b", "empties a table that the older release uses"),
)
_NOT_NULL = "asks for a value that the older release does not give"


def contracted_since(sql: str) -> str | None:
    """The release since which nothing uses any more what this migration takes away, if it takes something away."""
    found = _CONTRACT.search(sql)
    return found[1] if found else None


def violations(sql: str) -> list[str]:
    """What in a migration breaks the release before it, in words; empty for one that only widens."""
    text = re.sub(
        r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'",
        lambda found: "''" if found[0].startswith("'") else " ",
        sql,
        flags=re.DOTALL,
    )
    # The body of a function is no change of a table. Whether the function still does its work is what a replay finds.
    text = re.sub(r"\$(\w*)\$.*?\$\1\$", " ", text, flags=re.DOTALL)
    found: list[str] = []
    for statement in re.split(r";", text):
        said = " ".join(statement.split())
        found += [f"{why}: {said[:80]}" for pattern, why in _TAKES_AWAY if re.search(pattern, said, re.IGNORECASE)]
        if re.search(r"\bSET\s+NOT\s+NULL\b", said, re.IGNORECASE):
            found.append(f"{_NOT_NULL}: {said[:80]}")
        if re.match(r"ALTER\s+TABLE\b", said, re.IGNORECASE):
            found += [
                f"{_NOT_NULL}: {added[:80]}"
                for added in re.findall(
                    r"\bADD\s+(?:COLUMN\s+)?(?!CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN)[^,]*", said, re.IGNORECASE
                )
                if re.search(r"\bNOT\s+NULL\b", added, re.IGNORECASE)
                and not re.search(r"\b(DEFAULT|GENERATED)\b", added, re.IGNORECASE)
            ]
    return found
