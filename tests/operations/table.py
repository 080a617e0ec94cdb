"""The table in docs/operating.md: what each operation costs, a row for each, written by the suite and compared with it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from operations.judges import Cost

__all__ = ["DOCUMENT", "Row", "documented", "write"]

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "operating.md"
_ROW = re.compile(
    r"^\| (?P<name>.+?) \| (?P<jobs>\d+) \| (?P<seconds>\d+) s \| (?P<macs>\d+) \| (?P<minutes>\d+) min \|$"
)
_HEAD: Final = "| operation | jobs lost | all well after | Macs wiped | Macs out of service |\n|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Row:
    jobs: int
    seconds: int
    macs: int
    minutes: int

    @classmethod
    def of(cls, cost: Cost) -> "Row":
        return cls(cost.jobs, round(cost.seconds), cost.macs, round(cost.mac_seconds / 60))

    def far_from(self, other: "Row") -> list[str]:
        """Jobs and Macs are exact; times hang on which job runs at that moment, and may differ by half and two minutes."""
        found = []
        if (self.jobs, self.macs) != (other.jobs, other.macs):
            found.append(f"{self.jobs} jobs and {self.macs} Macs, and not {other.jobs} and {other.macs}")
        if abs(self.seconds - other.seconds) > 120 + 0.5 * max(self.seconds, other.seconds):
            found.append(f"{self.seconds} s, and not {other.seconds} s")
        if abs(self.minutes - other.minutes) > 5 + 0.5 * max(self.minutes, other.minutes):
            found.append(f"{self.minutes} min, and not {other.minutes} min")
        return found


def documented() -> dict[str, Row]:
    """The rows by operation, in their order."""
    found: dict[str, Row] = {}
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if match := _ROW.match(line):
            numbers = [int(match[name]) for name in ("jobs", "seconds", "macs", "minutes")]
            found[match["name"]] = Row(*numbers)
    return found


def write(measured: dict[str, Row], order: list[str]) -> None:
    """Put what was measured into the table; what was not stays as it is, what is no operation any more goes."""
    rows = {**documented(), **measured}
    lines = [
        f"| {name} | {row.jobs} | {row.seconds} s | {row.macs} | {row.minutes} min |\n"
        for name in order
        if (row := rows.get(name)) is not None
    ]
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(_HEAD)
    after = rest[re.match(r"(\|.*\n)*", rest).end() :]  # pyright: ignore[reportOptionalMemberAccess] - it matches nothing, too
    DOCUMENT.write_text(before + _HEAD + "".join(lines) + after, encoding="utf-8")
