"""Which goldens are used after a restart of the agent, a reboot, a power cut, and a step back of Tart."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from doubles.clocks import SteppedClock

from paddock.node.files import DiskFiles
from paddock.node.golden_book import GoldenBook, Kept, distrusted_for
from paddock.node.names import golden_name

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
IMAGE = "images.test/macos:1"
NAME = golden_name(IMAGE)


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (Kept(IMAGE, NOW), ""),  # the book of an agent that wrote no more
        (Kept(IMAGE, NOW, made_at=NOW, boot_id="boot-1", tart="2.35.0"), ""),
        (Kept(IMAGE, NOW, whole=False, boot_id="boot-1"), ""),  # the same boot makes it again
        (Kept(IMAGE, NOW, made_at=NOW, boot_id="boot-0"), "went down before it was 60 min old"),
        (Kept(IMAGE, NOW, made_at=NOW, boot_id="boot-0", closed=True), ""),
        (Kept(IMAGE, NOW, whole=False, boot_id="boot-0", closed=True), "went down before it was whole"),
        (Kept(IMAGE, NOW, made_at=NOW, tart="2.41.1"), "the older 2.35.0 may fail on it"),
        (Kept(IMAGE, NOW, made_at=NOW, tart="2.9.0"), ""),
        (Kept(IMAGE, NOW, made_at=NOW, tart="unknown"), ""),
    ],
)
def test_a_golden_is_distrusted_for_a_power_cut_in_its_first_hour_and_for_an_older_tart(kept: Kept, why: str) -> None:
    said = distrusted_for(kept, "boot-1", "2.35.0")
    assert said.endswith(why) or why in said
    assert bool(said) == bool(why)


class Mac:
    """A Mac on which agents come and go."""

    def __init__(self, folder: Path) -> None:
        self.clock = SteppedClock(NOW)
        self.path = folder / "goldens.json"
        self.boot = 1

    async def agent(self, tart: str = "2.35.0") -> GoldenBook:
        book = GoldenBook(DiskFiles(), self.path, self.clock, boot_id=f"boot-{self.boot}", tart=tart)
        await book.load()
        return book


async def test_a_golden_settles_after_an_hour_of_the_boot_in_which_it_was_made(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    book = await mac.agent()
    await book.begin(IMAGE)
    assert not book.usable(NAME)
    await book.finish(IMAGE)
    assert book.usable(NAME)
    mac.clock.step(61 * 60.0)
    await (await mac.agent()).settle()
    mac.boot += 1
    assert (await mac.agent()).usable(NAME)


async def test_an_orderly_end_counts_for_the_boot_that_follows_it_and_for_no_later_power_cut(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    book = await mac.agent()
    await book.finish(IMAGE)
    await book.close()
    mac.boot += 1
    assert (await mac.agent()).usable(NAME)
    book = await mac.agent()
    await book.finish(IMAGE)
    await book.close()
    assert (await mac.agent()).usable(NAME), "an update of the agent"
    mac.boot += 1
    assert not (await mac.agent()).usable(NAME), "the Mac went down under the agent after it"


async def test_a_golden_that_is_fetched_anew_is_trusted_again(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    await (await mac.agent(tart="2.41.1")).finish(IMAGE)
    book = await mac.agent(tart="2.35.0")
    assert list(book.distrusted) == [NAME]
    assert book.image_of(NAME) == IMAGE
    await book.forget(NAME)
    await book.begin(IMAGE)
    await book.finish(IMAGE)
    assert book.usable(NAME)
    assert (await mac.agent(tart="2.35.0")).usable(NAME)
