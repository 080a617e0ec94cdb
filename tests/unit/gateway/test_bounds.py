"""What a Mac sends counts only within bounds; whatever it sends, the answer is a value or a sentence."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from doubles.clocks import NOON
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.clients.gateway.messages import LARGEST_BODY, End, Event, MacFacts, PodReport, PodState, Report, Vitals
from paddock.gateway.bounds import OTHER_EVENT, Accepted, Ceiling, accept
from paddock.gateway.pod_bounds import MOST_PODS, is_work
from paddock.gateway.refusals import Refused

UID = "0c1d2e3f-0000-4000-8000-000000000001"
BORN = NOON - timedelta(hours=5)
CEILING = Ceiling(seats=2, cpus=8, memory_bytes=16 << 30, softnet=True)
MAC = MacFacts(
    machine_id="A1B2-C3",
    boot_id="boot",
    booted_at=NOON - timedelta(days=3),
    cpus=8,
    memory_bytes=16 << 30,
    disk_bytes=1 << 40,
    seats=2,
    clock=NOON,
    address="10.0.0.7",
    hostname="mac-1.local",
    softnet=True,
    goldens=("0123456789abcdef",),
)
REPORT = Report(folder="f", life=3, word="w", sequence=9, agent="0.2.0", mac=MAC)
POD = PodReport(state="handed", namespace="ci", name="pod-1", accepted_at=BORN, handed_at=NOON - timedelta(hours=3))


def sent(**changes: Any) -> dict[str, Any]:
    """A good report as JSON, with these parts replaced."""
    return json.loads(msgspec.json.encode(REPORT)) | changes


def take(report: dict[str, Any] | bytes, ceiling: Ceiling = CEILING) -> Accepted:
    body = report if isinstance(report, bytes) else json.dumps(report).encode()
    found = accept(body, NOON, ceiling, {UID: BORN})
    assert isinstance(found, Accepted), found
    return found


def refused(body: bytes) -> Refused:
    found = accept(body, NOON, CEILING, {})
    assert isinstance(found, Refused)
    return found


def pod(**changes: Any) -> PodReport:
    given = json.loads(msgspec.json.encode(POD)) | changes
    return take(sent(pods={UID: given})).pods[UID]


def test_a_report_within_all_bounds_counts_as_it_is():
    pods: dict[str, msgspec.Raw] = {UID: msgspec.Raw(msgspec.json.encode(POD))}
    found = take(msgspec.json.encode(msgspec.structs.replace(REPORT, pods=pods)))
    assert found == Accepted(report=REPORT, pods={UID: POD}, at=NOON)


# Refused


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"life":' + b"9" * 60_000 + b"}",
        json.dumps(sent(life=-1)).encode(),
        json.dumps(sent(life=10**18)).encode(),
        json.dumps(sent(sequence=10**400)).encode(),
        json.dumps(sent(sequence=True)).encode(),
        json.dumps(sent(sequence=1.5)).encode(),
        json.dumps(sent(word="")).encode(),
        json.dumps(sent(word="two words")).encode(),
        json.dumps(sent(folder="f" * 65)).encode(),
        json.dumps(sent(folder="-")).encode(),
        json.dumps(sent(mac={})).encode(),
        json.dumps(sent()).encode().replace(b'"0.2.0"', b'"\\ud800"'),
        json.dumps(sent(agent=float("nan"))).encode(),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(body: bytes):
    found = refused(body)
    assert found.status == 400
    assert found.message


def test_a_body_that_is_too_large_is_not_read():
    assert refused(b" " * (LARGEST_BODY + 1)).status == 413
    assert refused(b" " * LARGEST_BODY).status == 400


def test_a_refusal_repeats_nothing_of_the_request():
    assert "sesame" not in refused(json.dumps(sent(life="sesame")).encode()).message
    assert "sesame" not in refused(json.dumps(sent(word="open sesame")).encode()).message


# Only less


@pytest.mark.parametrize(
    ("said", "granted", "counts"), [(2, 2, 2), (1, 2, 1), (2, 1, 1), (9, 9, 2), (-1, 2, 0), (2, -3, 0), (10**40, 2, 2)]
)
def test_seats_are_two_at_most_and_no_more_than_the_machine_grants(said: int, granted: int, counts: int):
    assert take(sent(mac=sent()["mac"] | {"seats": said}), Ceiling(seats=granted)).report.mac.seats == counts


@pytest.mark.parametrize(("said", "counts"), [(1, 1), (8, 8), (9, 8), (-4, 0), (10**30, 8)])
def test_memory_and_cpus_are_the_types_at_most(said: int, counts: int):
    mac = take(sent(mac=sent()["mac"] | {"cpus": said, "memory_bytes": said << 31})).report.mac
    assert (mac.cpus, mac.memory_bytes) == (counts, counts << 31)


@pytest.mark.parametrize(
    ("granted", "said", "counts"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_softnet_counts_only_where_it_was_granted(granted: bool, said: bool, counts: bool):
    assert take(sent(mac=sent()["mac"] | {"softnet": said}), Ceiling(softnet=granted)).report.mac.softnet is counts


# Texts and names


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ("macOS 26", "macOS 26"),
        ("a\x1b[2Jb", "a [2Jb"),
        ("a\u202eb\u2066c", "a b c"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("é" * 100, "é" * 64),
        ("a" + "\U0001f34e" * 40, "a" + "\U0001f34e" * 31),
    ],
)
def test_a_text_is_printable_on_one_line_and_cut_between_characters(said: str, counts: str):
    assert take(sent(mac=sent()["mac"] | {"os_image": said})).report.mac.os_image == counts


@pytest.mark.parametrize("said", ["10.0.0.7%en0", "::1%lo", "169.254.0.0.1", "javascript:", ""])
def test_an_address_is_an_address(said: str):
    assert take(sent(mac=sent()["mac"] | {"address": said, "hostname": "A b"})).report.mac.address == ""


def test_only_hashes_name_goldens():
    said = ["0123456789abcdef", "0123456789ABCDEF", "x" * 16, "0123456789abcde"]
    assert take(sent(mac=sent()["mac"] | {"goldens": said})).report.mac.goldens == ("0123456789abcdef",)


# Moments


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ("2026-06-01T12:00:00Z", NOON),
        ("2026-06-01T14:00:00+02:00", NOON),
        ("2026-06-01T12:00:00", NOON),
        ("9999-12-31T23:59:59-14:00", NOON + timedelta(hours=1)),
        ("0001-01-01T00:00:00+14:00", NOON - timedelta(hours=1)),
        ("0001-01-01T00:00:00", NOON - timedelta(hours=1)),
    ],
)
def test_a_moment_of_the_mac_is_at_most_an_hour_away(said: str, counts: datetime):
    event = {"reason": "NoSession", "message": "m", "at": said}
    found = take(sent(events=[event], mac=sent()["mac"] | {"clock": said})).report
    assert (found.mac.clock, found.events[0].at) == (counts, counts)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ("2026-06-01T09:00:00Z", NOON - timedelta(hours=3)),
        ("2026-06-01T03:00:00Z", BORN),
        ("2026-06-01T12:00:01Z", NOON),
        ("9999-12-31T23:59:59-14:00", NOON),
        ("0001-01-01T00:00:00+14:00", BORN),
    ],
)
def test_an_end_is_between_the_pods_creation_and_now(said: str, counts: datetime):
    end = {"succeeded": False, "code": -9, "reason": "VMExited", "finished_at": said, "message": "one\ntwo\x07"}
    assert pod(end=end, started_at=said) == msgspec.structs.replace(
        POD, started_at=counts, end=End(False, 255, "VMExited", counts, "one\ntwo ")
    )


def test_the_end_of_a_log_is_kept_and_its_beginning_cut():
    end = pod(
        end={
            "succeeded": True,
            "code": 0,
            "reason": "x y",
            "finished_at": "2026-06-01T12:00:00Z",
            "message": "é" * 3000,
        }
    ).end
    assert end is not None
    assert (end.reason, end.message) == ("Ended", "é" * 2048)


# Words that this release does not know


def test_an_unknown_state_holds_its_seat_and_counts_as_work():
    assert pod(state="hibernating").state == PodState.OTHER
    assert is_work(pod(state="hibernating"))


@pytest.mark.parametrize(
    "broken",
    [
        7,
        None,
        "handed",
        {"state": 7, "namespace": "ci", "name": "pod-1"},
        {"state": "ended", "namespace": "ci", "name": "pod-1", "end": {"code": 10**400}},
        {"state": "ended", "namespace": "ci", "name": "pod-1", "accepted_at": "soon"},
    ],
)
def test_a_pod_that_cannot_be_decoded_costs_no_heartbeat_and_counts_as_work(broken: Any):
    other = UID.replace("1", "2")
    found = take(sent(pods={UID: broken, other: json.loads(msgspec.json.encode(POD))}))
    assert found.pods[UID].state == PodState.UNREADABLE
    assert is_work(found.pods[UID])
    assert found.pods[other].state == "handed"
    if isinstance(broken, dict):
        assert (found.pods[UID].namespace, found.pods[UID].name) == ("ci", "pod-1")


def test_what_an_undecodable_part_holds_is_left_out_and_nothing_else():
    good = {"holds": False, "reason": "DiskIsShort", "message": "1 GB\nfree"}
    found = take(
        sent(
            conditions={"DiskPressure": good, "Ready": 1, "OtherClusterVMs": good, "Newer": good},
            events=[{"reason": "Exploit", "message": "m", "at": "2026-06-01T12:00:00Z", "pod": "../x"}, 3, {}],
            vitals={"cpu_percent": -5, "memory_bytes": 10**30, "disk_free_bytes": None},
            vm_vitals={UID: {"cpu_percent": 1e308}, "stranger": {"cpu_percent": 1}},
            pods={UID: json.loads(msgspec.json.encode(POD))},
        )
    ).report
    assert {kind: each.message for kind, each in found.conditions.items()} == {"DiskPressure": "1 GB free"}
    assert found.events == (Event(OTHER_EVENT, "m", NOON),)
    assert found.vitals == Vitals(0.0, 1 << 50, None)
    assert found.vm_vitals == {UID: Vitals(102400.0)}
    whole = take(sent(conditions=[], events={}, vitals=7, vm_vitals="")).report
    assert (whole.conditions, whole.events, whole.vitals, whole.vm_vitals) == ({}, (), None, {})


# So many, and no more


def test_of_too_many_pods_those_that_may_work_are_kept_and_the_rest_is_counted():
    state = {"namespace": "ci", "name": "p"}
    pods = {f"old-{each}": state | {"state": "cleared"} for each in range(MOST_PODS)} | {
        "new": state | {"state": "handed"}
    }
    found = take(sent(pods=pods))
    assert (len(found.pods), found.left_out) == (MOST_PODS, 1)
    assert "new" in found.pods


@pytest.mark.parametrize(("pods", "left_out"), [({"../etc": {}}, 1), ([], 1), (None, 1), ({}, 0)])
def test_a_pod_that_cannot_be_named_is_counted_so_that_the_mac_is_not_idle(pods: Any, left_out: int):
    found = take(sent(pods=pods))
    assert (found.pods, found.left_out) == ({}, left_out)


def test_there_are_no_more_events_than_a_report_may_have():
    event = {"reason": "NoSession", "message": "m", "at": "2026-06-01T12:00:00Z"}
    assert len(take(sent(events=[event] * 200)).report.events) == 16


# Anything at all

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers().map(lambda each: each * 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
    | st.datetimes().map(lambda each: each.isoformat())
    | st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat())
    | st.sampled_from([*PodState, UID, "Ready", "NoSession", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
)
_WORDS = sorted(
    {*REPORT.__struct_fields__, *MAC.__struct_fields__, *POD.__struct_fields__, *End.__struct_fields__, UID}
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(_WORDS) | st.text(max_size=8), inner, max_size=8)
    ),
    max_leaves=30,
)


def holds(body: bytes) -> None:
    found = accept(body, NOON, CEILING, {UID: BORN})
    if isinstance(found, Refused):
        assert found.status in (400, 413)
        assert len(found.message) < 200
        return
    again = msgspec.json.encode(found)
    assert len(again) <= 2 * LARGEST_BODY
    mac = found.report.mac
    assert 0 <= mac.seats <= 2
    assert 0 <= mac.cpus <= 8
    assert abs(mac.clock - NOON) <= timedelta(hours=1)
    assert len(found.pods) <= MOST_PODS
    for each in found.pods.values():
        assert each.state in set(PodState)
        moments = (each.accepted_at, each.handed_at, each.end and each.end.finished_at)
        assert all(moment.tzinfo == UTC and moment <= NOON for moment in moments if moment)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_value_or_a_refusal(body: bytes):
    holds(body)


@given(st.dictionaries(st.sampled_from(_WORDS), _JSON, max_size=6), st.dictionaries(st.sampled_from(_WORDS), _JSON))
@example({"pods": {UID: {"end": {"finished_at": "0001-01-01T00:00:00+23:59"}}}}, {})
def test_any_parts_are_a_value_or_a_refusal(parts: dict[str, Any], of_pod: dict[str, Any]):
    holds(json.dumps(sent(**parts)).encode())
    holds(json.dumps(sent(pods={UID: json.loads(msgspec.json.encode(POD)) | of_pod})).encode())
    facts = {key: value for key, value in parts.items() if key in MAC.__struct_fields__}
    holds(json.dumps(sent(mac=sent()["mac"] | facts)).encode())


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
def test_a_report_with_bytes_changed_anywhere_is_a_value_or_a_refusal(at: int, put: bytes):
    body = json.dumps(sent(pods={UID: json.loads(msgspec.json.encode(POD))}, events=[{}], vitals={})).encode()
    at %= len(body)
    holds(body[:at] + put + body[at + len(put) :])
    holds(body[:at])


@pytest.mark.parametrize("pod", [b'{"state":"\xc3\xa9","namespace":"","name":""}', b"0"])
def test_what_fills_a_body_stays_within_twice_its_size(pod: bytes):
    pods = b",".join(b'"%d":%b' % (each, pod) for each in range(60_000 // (len(pod) + 8)))
    holds(json.dumps(sent(pods="?")).encode().replace(b'"?"', b"{" + pods + b"}"))


def test_of_a_key_that_stands_twice_the_last_one_counts():
    body = json.dumps(sent()).encode()
    assert take(body.replace(b'"life": 3', b'"life": 3, "life": 4')).report.life == 4
