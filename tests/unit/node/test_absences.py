"""A Pod is gone for what answers say, twice; never for what they do not say."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.clients.gateway.messages import Absent, Answer, WantedPod
from paddock.node.absences import Absences
from paddock.node.journal import Entry, Stage

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENTRY = Entry(uid="u", namespace="n", name="p", container="c", image="i", vm="v", stage=Stage.RUNNING, accepted_at=NOW)
ENDED = replace(ENTRY, stage=Stage.ENDED)
SHOWN = Answer(now=NOW, cluster="a", pods=(WantedPod(uid="u", namespace="n", name="p", image="i"),))
SILENT = Answer(now=NOW, cluster="a")
INCOMPLETE = replace(SILENT, complete=False)
GONE = replace(SILENT, absent={"u": "gone"})
NOT_KNOWN = replace(SILENT, absent={"u": "unknown"})


def test_an_entry_that_holds_a_seat_is_gone_after_two_answers_half_a_minute_apart() -> None:
    absences = Absences(30.0)
    assert [absences.read(GONE, [ENTRY], now) for now in (0.0, 29.9, 30.0)] == [[], [], ["u"]]


def test_an_entry_that_is_over_needs_one() -> None:
    assert Absences(30.0).read(GONE, [ENDED], 0.0) == ["u"]


def test_a_pod_that_is_shown_again_starts_anew() -> None:
    absences = Absences(30.0)
    answers = [(GONE, 0.0), (SHOWN, 20.0), (GONE, 40.0), (GONE, 69.0)]
    assert [absences.read(answer, [ENTRY], now) for answer, now in answers] == [[], [], [], []]
    assert absences.read(GONE, [ENTRY], 70.0) == ["u"]


def test_an_answer_that_does_not_know_moves_nothing_in_either_direction() -> None:
    for other in (SILENT, INCOMPLETE, NOT_KNOWN):
        absences = Absences(30.0)
        assert absences.read(GONE, [ENTRY], 0.0) == []
        assert absences.read(other, [ENTRY], 40.0) == [], "the second word is missing"
        assert absences.read(GONE, [ENTRY], 50.0) == ["u"]
        assert Absences(30.0).read(other, [ENDED], 1000.0) == []


def test_of_uids_that_the_journal_does_not_have_nothing_follows() -> None:
    assert Absences(30.0).read(GONE, [], 0.0) == []


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([SHOWN, SILENT, INCOMPLETE, NOT_KNOWN, GONE]), st.floats(0.1, 40.0))))
def test_no_order_of_answers_ends_a_vm_without_two_that_say_gone_and_none_between_that_shows_it(
    answers: list[tuple[Answer, float]],
) -> None:
    absences, now, said = Absences(30.0), 0.0, list[float]()
    for answer, later in answers:
        now += later
        verdict: Absent | None = answer.absent.get("u")
        said = [] if answer is SHOWN else [*said, now] if verdict == "gone" else said
        if absences.read(answer, [ENTRY], now):
            assert len(said) >= 2
            assert said[-1] - said[0] >= 30.0
            said = []
