"""What a Mac reports fits into a request, whatever it has to say, and all of it is reported in the end."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.clients.gateway.messages import (
    LARGEST_BODY,
    MOST_ENDS,
    End,
    Event,
    MacFacts,
    PodReport,
    PodState,
    Reason,
    Report,
    Stated,
    WantedPod,
)
from paddock.node.journal import Entry, Stage
from paddock.node.report import Observed, entry_report, fill, newcomer_report, news_of, unreadable_report

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAC = MacFacts(machine_id="m", boot_id="b", booted_at=NOW, cpus=8, memory_bytes=1, disk_bytes=1, seats=2, clock=NOW)
HEAD = Report(folder="f", life=1, word="w", sequence=1, agent="0.2.0", mac=MAC)
ENTRY = Entry(
    uid="u",
    namespace="default",
    name="p",
    container="runner",
    image="i",
    vm="pdk-pool-u",
    stage=Stage.RUNNING,
    accepted_at=NOW,
    running_at=NOW,
)


def an_end(message: str) -> End:
    return End(succeeded=False, code=1, reason="Error", finished_at=NOW, message=message)


def ended(number: int, message: str) -> PodReport:
    entry = replace(ENTRY, uid=f"uid-{number}", name=f"p{number}", stage=Stage.ENDED, end=an_end(message))
    return entry_report(entry, None, Observed())


def decoded(report: Report) -> dict[str, PodReport]:
    return {uid: msgspec.json.decode(raw, type=PodReport) for uid, raw in report.pods.items()}


def sent_until_all_are(pods: dict[str, PodReport], head: Report = HEAD) -> list[frozenset[str]]:
    """The uids of each report until every Pod was in one."""
    named: dict[str, int] = {}
    reports: list[frozenset[str]] = []
    while set(pods) - set(named):
        report, uids = fill(head, pods, named)
        assert len(msgspec.json.encode(report)) <= LARGEST_BODY
        assert sum(each.end is not None for each in decoded(report).values()) <= MOST_ENDS
        assert uids == frozenset(report.pods)
        assert len(reports) < 100, f"never reported: {set(pods) - set(named)}"
        reports.append(uids)
        named |= {uid: named.get(uid, 0) + 1 for uid in uids}
    return reports


@pytest.mark.parametrize("character", ["x", '"', "\\", "\n", "ü", "\x00"])
def test_ten_ends_with_the_longest_message_fit_and_all_are_reported(character: str) -> None:
    message = (character * 4096).encode()[:4096].decode("utf-8", "ignore")
    pods = {f"uid-{number}": ended(number, message) for number in range(10)}
    reports = sent_until_all_are(pods)
    assert len(reports) >= 3
    assert all(reports)


def test_ends_that_are_never_recorded_keep_no_other_from_being_reported() -> None:
    named: dict[str, int] = {}
    pods = {f"uid-{number}": ended(number, "x") for number in range(9)}
    for _ in range(9):
        _, uids = fill(HEAD, pods, named)
        named |= {uid: named.get(uid, 0) + 1 for uid in uids}
    assert set(named) == set(pods)
    assert max(named.values()) - min(named.values()) <= 1


def test_a_pod_whose_vm_may_run_is_in_every_report() -> None:
    alive = entry_report(ENTRY, None, Observed())
    pods = {"zz": alive} | {f"uid-{number}": ended(number, '"' * 4096) for number in range(10)}
    assert all("zz" in uids for uids in sent_until_all_are(pods))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=4096), max_size=12),
    st.text(max_size=6000),
    st.integers(0, 400),
    st.integers(0, 30),
)
def test_no_report_exceeds_a_request_whatever_is_in_it(
    ends: list[str], text: str, unreadable: int, events: int
) -> None:
    pods = {f"uid-{number}": ended(number, message) for number, message in enumerate(ends)}
    broken = unreadable_report(None, Observed(Reason("JournalUnreadable", "left alone")))
    pods |= {f"broken-{number}": broken for number in range(unreadable)}
    pods["zz"] = entry_report(replace(ENTRY, stage=Stage.ACCEPTED), None, Observed(Reason("ImagePulling", text)))
    head = replace(
        HEAD,
        conditions={f"Condition{number}": Stated(True, "Reason", text) for number in range(10)},
        events=tuple(Event("Reason", text, NOW) for _ in range(events)),
    )
    sent_until_all_are(pods, head)


def test_an_end_is_in_each_report_until_it_is_recorded() -> None:
    entry = replace(ENTRY, stage=Stage.ENDED, end=an_end("log"))
    shown = WantedPod(uid="u", namespace="default", name="p", image="i", recorded=PodState.READY)
    for wanted in (None, shown, replace(shown, recorded=None)):
        assert entry_report(entry, wanted, Observed()).end == entry.end
    recorded = entry_report(entry, replace(shown, recorded=PodState.ENDED), Observed())
    assert (recorded.state, recorded.end) == (PodState.ENDED, None)
    restored = entry_report(replace(entry, stage=Stage.CLEARED), shown, Observed())
    assert (restored.state, restored.end) == (PodState.CLEARED, entry.end), "an API server of a backup learns it anew"


def test_the_state_of_an_entry_moves_forward_only() -> None:
    order = list(PodState)
    pulls = Observed(Reason("ImagePulling", "3 of 60 GB"))
    life = [
        (replace(ENTRY, stage=Stage.ACCEPTED, running_at=None), Observed()),
        (replace(ENTRY, stage=Stage.ACCEPTED, running_at=None), pulls),
        (replace(ENTRY, stage=Stage.CLONING, running_at=None), Observed()),
        (replace(ENTRY, stage=Stage.STARTING, running_at=None), Observed()),
        (ENTRY, Observed()),
        (replace(ENTRY, stage=Stage.CLONING), Observed()),  # a second run
        (replace(ENTRY, ready_at=NOW), Observed()),
        (replace(ENTRY, ready_at=NOW), Observed(unsaid=True)),
        (replace(ENTRY, ready_at=NOW, handed_at=NOW), Observed()),
        (replace(ENTRY, stage=Stage.ENDED, handed_at=NOW, end=an_end("")), Observed()),
        (replace(ENTRY, stage=Stage.CLEARED, handed_at=NOW, end=an_end("")), Observed()),
    ]
    places = [order.index(PodState(entry_report(entry, None, observed).state)) for entry, observed in life]
    assert places == sorted(places)


def test_asking_goes_back_and_forth_and_the_state_does_not() -> None:
    asks = replace(ENTRY, ready_at=NOW, asking_at=NOW)
    cut_off = replace(asks, cut_off_at=NOW)
    assert [entry_report(each, None, Observed()).asks for each in (ENTRY, asks, cut_off)] == [False, True, False]
    assert entry_report(asks, None, Observed(unsaid=True)).asks is False
    assert {entry_report(each, None, Observed()).state for each in (asks, cut_off)} == {PodState.READY}


def test_a_newcomer_is_named_only_when_something_was_decided() -> None:
    wanted = WantedPod(uid="u", namespace="default", name="p", image="i")
    assert newcomer_report(wanted, Observed()) is None
    refused = newcomer_report(wanted, Observed(Reason("OutOfcpu", "no"), newcomer=PodState.REFUSED, since=NOW))
    assert refused is not None
    assert (refused.state, refused.accepted_at) == (PodState.REFUSED, NOW)


def test_marks_and_texts_that_count_are_no_news() -> None:
    def news(entry: Entry, observed: Observed) -> object:
        return news_of([("u", entry_report(entry, None, observed))])

    running = replace(ENTRY, ready_at=NOW, handed_at=NOW)
    assert news(running, Observed(mark="1 running")) == news(running, Observed(mark="2 running"))
    pulls = replace(ENTRY, stage=Stage.ACCEPTED)
    assert news(pulls, Observed(Reason("ImagePulling", "1 GB"))) == news(
        pulls, Observed(Reason("ImagePulling", "2 GB"))
    )
    assert news(pulls, Observed(Reason("ImagePulling", ""))) != news(pulls, Observed(Reason("ErrImagePull", "")))
    assert news(running, Observed()) != news(replace(running, stage=Stage.ENDED, end=an_end("")), Observed())
