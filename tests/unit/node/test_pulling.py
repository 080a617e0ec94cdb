"""When a pull is ended: for a standstill and for the last of the disk, never for the time that it takes in all."""

from paddock.node.host import Disk
from paddock.node.machines import Download
from paddock.node.pulling import SILENCE, Progress, ended_for, grown

ROOM, SHORT = Disk(40, 100), Disk(4, 100)
GB = 10**9


def test_a_pull_that_gets_on_is_not_ended_however_long_it_takes() -> None:
    for hours in (0.34, 3, 18, 100):
        assert ended_for(Progress(40 * GB, 65 * GB, lasted=hours * 3600, quiet=SILENCE - 1), ROOM) == ""


def test_a_pull_of_which_nothing_arrives_for_ten_minutes_is_ended_and_says_how_far_it_came() -> None:
    said = ended_for(Progress(12 * GB, 65 * GB, lasted=700.0, quiet=SILENCE), ROOM)
    assert said == (
        "nothing of the image has arrived for 10 min (12.0 of at most 65.0 GB are here), so that the pull was ended"
    )
    assert "(" not in ended_for(Progress(quiet=SILENCE), ROOM)


def test_the_last_of_the_disk_is_for_the_vms_that_run() -> None:
    assert "free some space" in ended_for(Progress(), SHORT)
    assert ended_for(Progress(), None) == "", "what was not found out is no reason"


def test_progress_is_the_growth_of_a_disk_that_was_there() -> None:
    before = {"pull": Download(4 * GB, 65 * GB)}
    assert grown(before, {"pull": Download(4 * GB + 4096, 65 * GB)})
    assert not grown(before, before)
    assert not grown(before, before | {"clone": Download(30 * GB, 50 * GB)}), "a job that starts hides no standstill"
    assert not grown(before, {"clone": Download(30 * GB, 50 * GB)})
    assert not grown({}, before)
