"""The kinds of disagreement have one list; code and documents say the same."""

import re
from pathlib import Path

import paddock.runners
from paddock.runners.healing.kinds import KINDS

CODE = Path(paddock.runners.__file__).parent
DESIGN = CODE.parents[2] / "docs" / "design" / "healing.md"


def test_every_kind_is_written_by_some_worker() -> None:
    folders = [*(CODE / "healing").glob("*.py"), *(CODE / "healing" / "verdicts").glob("*.py")]
    text = "".join(path.read_text() for path in folders if path.name != "kinds.py")
    assert [kind for kind in sorted(KINDS) if f'"{kind}"' not in text] == []


def test_the_design_tells_of_every_kind_and_of_no_other() -> None:
    rows = [line.split("|")[1] for line in DESIGN.read_text().splitlines() if line.startswith("| `")]
    told = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}
    assert told == KINDS
