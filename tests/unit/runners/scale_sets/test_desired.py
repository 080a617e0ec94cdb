"""What becomes of a scale set that is not what its pool wants."""

from datetime import UTC, datetime

from unit.runners.scale_sets.test_decisions import found, pool

from paddock.clients.github.scaleset import ScaleSet, ScaleSetStatistics
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.desired import Change, change, desired, differences, keeps_labels, replaced, unused

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
LABELS = ["macos-26", "self-hosted", "macOS", "paddock-us"]


def source(labels: list[str] | None = None, group: str | None = "Default", *, since: datetime | None = None) -> Source:
    return Source(
        source_id=1, pool="macos", account_id=1, repository="", scale_set_id=3, session_id="", epoch=1, dispatcher_id=1,
        state="Listening", sentence="", since=NOW, heard_at=None, assigned=0, running=0, advertised=0,
        asked_labels=labels, asked_group=group, replacing_since=since,
    )  # fmt: skip


def named(name: str) -> ScaleSet:
    return ScaleSet(scale_set_id=3, name=name, group_id=1, labels=(name, *LABELS[1:]))


def test_a_set_that_was_asked_for_as_it_is_wanted_is_left_alone_whatever_github_kept_of_it() -> None:
    assert change(found(3, "MACOS-26"), desired(pool(), "us"), source(LABELS)) is Change.NONE
    assert change(found(3), desired(pool(), "us"), source([word.upper() for word in LABELS], "default")) is Change.NONE


def test_labels_and_group_are_changed_in_place_and_replaced_once_that_has_failed() -> None:
    fewer, group = desired(pool(offers=("macOS",)), "us"), desired(pool(group="macs"), "us")
    assert change(named("macos-26"), fewer, source(LABELS)) is Change.UPDATE
    assert change(named("macos-26"), group, source(LABELS)) is Change.UPDATE
    assert change(named("macos-26"), fewer, source(LABELS, since=NOW)) is Change.REPLACE


def test_a_set_of_an_older_release_is_compared_once() -> None:
    assert change(named("macos-26"), desired(pool(), "us"), source(None, None)) is Change.UPDATE


def test_another_name_is_another_set() -> None:
    assert change(named("macos-25"), desired(pool(), "us"), source(LABELS)) is Change.REPLACE
    assert change(named("MacOS-26"), desired(pool(), "us"), source(LABELS)) is Change.NONE


def test_a_github_that_kept_our_mark_keeps_labels() -> None:
    assert keeps_labels(named("macos-26"), "US")
    assert not keeps_labels(found(3, "macos-26"), "us")


def test_a_set_is_unused_only_when_nothing_is_assigned_and_no_runner_of_it_works() -> None:
    assert unused(ScaleSetStatistics(total_idle_runners=2, total_available_jobs=5))
    assert not unused(ScaleSetStatistics(total_assigned_jobs=1))
    assert not unused(ScaleSetStatistics(total_running_jobs=1))
    assert not unused(ScaleSetStatistics(total_busy_runners=1))


def test_the_sentence_says_what_changed_since_when_and_what_comes_next() -> None:
    wanted = desired(pool(label="macos-27", group="macs", offers=("macOS", "xcode")), "us")
    assert differences(named("macos-26"), wanted, source(LABELS)) == (
        "dispatchLabel from 'macos-26' to 'macos-27', runnerGroup from 'Default' to 'macs', "
        "runnerLabels (without self-hosted and with xcode)"
    )
    wanted = desired(pool(label="macos-27"), "us")
    assert replaced(named("macos-26"), wanted, source(LABELS), NOW, 2) == (
        "the pool changed dispatchLabel from 'macos-26' to 'macos-27': scale set 'macos-26' takes no new jobs since "
        "2026-11-16 12:00 UTC; 2 assigned jobs are served to the end, then it is deleted and 'macos-27' is made; "
        "jobs that ask for 'macos-26' wait at GitHub until a scale set offers it"
    )
    said = replaced(named("macos-26"), desired(pool(label="new", offers=("macos-26",)), "us"), source(LABELS), NOW, 0)
    assert "no job is left, then it is deleted and 'new' is made" in said
    assert "wait at GitHub" not in said
