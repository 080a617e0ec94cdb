"""In which order a Mac's reports count, whichever replica hears them. Pure.

What was heard last is noted in an annotation of the Mac's Lease, under its resourceVersion; a report that is older is dropped.
That alone does not stop a slow replica. So **a writer takes the version of the Node or Pod first, then reads the Lease, and writes
only if the Lease names the report that it writes from**: whatever was written from a newer report has changed the version.
"""

from typing import Final, Literal

from msgspec import Struct

__all__ = ["REPORT", "Heard", "order_of", "parse"]

REPORT: Final = "tuist.dev/mac-report"
"""On a Mac's Lease: the report that was heard last."""


class Heard(Struct, frozen=True):
    """One report of a Mac. `folder` is a random word of the agent's data folder, `life` counts the agent's starts in it and is
    journalled before the first report, `word` is drawn at each start, `sequence` counts the reports of one life.
    """

    key_number: int
    folder: str
    life: int
    word: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.key_number} {self.folder or '-'} {self.life} {self.word or '-'} {self.sequence}"


def parse(text: str) -> Heard | None:
    """What the annotation says; None where it says nothing that we wrote, so that the next report counts."""
    match text.split(" "):
        case [number, folder, life, word, sequence] if all(
            each.isascii() and each.isdigit() and len(each) < 19 for each in (number, life, sequence)
        ):
            return Heard(int(number), folder.strip("-"), int(life), word.strip("-"), int(sequence))
        case _:
            return None


def order_of(noted: Heard | None, report: Heard) -> Literal["newer", "older", "twin"]:
    """Whether the report counts. `twin`: two agents speak for one Mac, and neither can be believed about the other's VMs."""
    if noted is None:
        return "newer"
    if noted.folder != report.folder:
        # Another installation has a newer key, because a claim and a reinstall end the former ones.
        if noted.key_number == report.key_number:
            return "twin"
        return "newer" if report.key_number > noted.key_number else "older"
    if noted.life != report.life:
        return "newer" if report.life > noted.life else "older"
    if noted.word != report.word:
        return "twin"
    return "newer" if report.sequence > noted.sequence else "older"
