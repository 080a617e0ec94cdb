"""A Mac is marked when jobs of three accounts fail there at once beside Macs that do well, and for no other reason."""

from collections import defaultdict
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from unit.runners.pools.built import NOW, ago

from paddock.base.failing_mac import JOBS_FAIL, JobsFail, jobs_fail, mark_of
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.pools.failing_macs import Mac, judge_fleet

FLEET = {name: Mac(f"boot of {name}") for name in ("m1", "m2", "m3", "m4")}


def end(account: int, minutes: float, result: str = "failed_at_once", node: str = "m1", ran: float = 1.0) -> EndOnMac:
    at = ago(minutes=minutes)
    return EndOnMac(node, account, f"{node}-{account}-{minutes}", at - timedelta(minutes=ran), at, result)  # pyright: ignore[reportArgumentType]


def three(node: str = "m1", *, minutes: float = 0.0) -> list[EndOnMac]:
    return [end(account, minutes + account, node=node) for account in (1, 2, 3)]


def mark(boot: str = "boot of m1", at: float = 10.0, until: float = -50.0) -> JobsFail:
    return JobsFail(boot, ago(minutes=at), ago(minutes=until), "they fail")


def test_three_jobs_of_three_accounts_that_failed_at_once_mark_their_mac() -> None:
    found = judge_fleet(FLEET, three(), NOW).marks
    assert set(found) == {"m1"}
    assert (found["m1"].boot_id, found["m1"].at, found["m1"].until) == ("boot of m1", NOW, NOW + timedelta(minutes=59))
    assert "the last 3 runners, of 3 accounts, failed within two minutes or never had their job" in found["m1"].sentence
    assert "Pods m1-1-1.0, m1-2-2.0, m1-3-3.0" in found["m1"].sentence


def test_one_account_condemns_no_mac_however_often_its_jobs_fail() -> None:
    assert judge_fleet(FLEET, [end(1, n) for n in range(1, 20)], NOW).marks == {}
    assert judge_fleet(FLEET, [end(n % 2, n) for n in range(1, 20)], NOW).marks == {}


def test_runners_of_one_account_that_never_had_a_job_mark_the_mac_where_the_account_does_well_elsewhere() -> None:
    never = [end(1, n, "never_began") for n in (1, 2, 3)]
    assert judge_fleet(FLEET, never, NOW).marks == {}, "the account may let no runner in"
    before = end(1, 30, "succeeded", node="m2")
    assert judge_fleet(FLEET, [*never, before], NOW).marks == {}, "nor is it known what has changed since"
    assert judge_fleet(FLEET, [*never, end(2, 1, "succeeded", node="m2")], NOW).marks == {}, (
        "another account says nothing"
    )
    found = judge_fleet(FLEET, [*never, end(1, 1, "succeeded", node="m2")], NOW).marks
    assert (
        "3 runners never had their job, while jobs of the same accounts succeed on other Macs" in found["m1"].sentence
    )
    failed = [end(1, 4), end(1, 5), *never[:2], end(1, 1, "succeeded", node="m2")]
    assert judge_fleet(FLEET, failed, NOW).marks == {}, "jobs that failed may have failed by themselves"


def test_a_success_between_them_or_after_them_clears_the_mac() -> None:
    assert judge_fleet(FLEET, [*three(), end(4, 0.5, "succeeded")], NOW).marks == {}
    assert judge_fleet(FLEET, [*three(), end(4, 1.5, "succeeded")], NOW).marks == {}
    assert set(judge_fleet(FLEET, [*three(), end(4, 5, "succeeded")], NOW).marks) == {"m1"}


def test_what_proves_nothing_neither_clears_nor_condemns() -> None:
    assert set(judge_fleet(FLEET, [*three(), end(4, 0.5, "other"), end(5, 1.5, "other")], NOW).marks) == {"m1"}
    assert judge_fleet(FLEET, [end(1, 1), end(2, 2), end(3, 3, "other")], NOW).marks == {}


def test_where_half_of_the_macs_fail_it_is_not_the_macs() -> None:
    judged = judge_fleet(FLEET, [*three("m1"), *three("m2")], NOW)
    assert judged.marks == {}
    assert "look at GitHub, the image and the network" in judged.spared
    doubtful = judge_fleet(FLEET, [*three("m1"), end(1, 1, node="m2")], NOW)
    assert doubtful.marks == {}, "the next ones may only not have come to three yet"
    assert judge_fleet({"m1": Mac("b")}, three(), NOW).marks == {}, "a fleet of one keeps its Mac"


def test_macs_that_take_no_pods_are_no_majority() -> None:
    few = FLEET | {"m3": Mac("c", serving=False), "m4": Mac("d", serving=False)}
    assert judge_fleet(few, three(), NOW).marks == {}
    three_of_four = FLEET | {"m4": Mac("d", serving=False)}
    assert set(judge_fleet(three_of_four, three(), NOW).marks) == {"m1"}


def test_a_mark_stays_as_it_is_until_an_hour_after_the_last_failure() -> None:
    held = FLEET | {"m1": Mac("boot of m1", mark(at=30, until=-1), serving=False)}
    assert judge_fleet(held, [], NOW).marks == {"m1": held["m1"].mark}
    over = FLEET | {"m1": Mac("boot of m1", mark(at=60, until=0), serving=False)}
    assert judge_fleet(over, three(minutes=60), NOW).marks == {}


def test_a_mark_ends_with_a_success() -> None:
    held = FLEET | {"m1": Mac("boot of m1", mark(), serving=False)}
    assert judge_fleet(held, [*three(minutes=10), end(4, 1, "succeeded")], NOW).marks == {}


def test_a_further_failure_keeps_the_beginning_of_a_mark_and_moves_its_end() -> None:
    held = FLEET | {"m1": Mac("boot of m1", mark(), serving=False)}
    found = judge_fleet(held, [*three(minutes=10), end(4, 1)], NOW).marks["m1"]
    assert (found.at, found.until) == (ago(minutes=10), NOW + timedelta(minutes=59))
    assert "the last 4 runners, of 4 accounts" in found.sentence


def test_after_a_reboot_only_what_began_after_the_mark_counts() -> None:
    booted = FLEET | {"m1": Mac("the next boot", mark(at=5))}
    before = [*three(minutes=5), end(4, 1, ran=5)]
    judged = judge_fleet(booted, before, NOW).marks
    assert judged == {"m1": mark(at=5)}, "kept, as the record of when failures count anew"
    assert jobs_fail({JOBS_FAIL: judged["m1"].annotation()}, {"bootID": "the next boot"}) is None, "and holds no more"
    again = judge_fleet(booted, [*before, *three()], NOW).marks["m1"]
    assert (again.boot_id, again.at) == ("the next boot", NOW)


def test_without_the_ledger_marks_end_by_their_time_alone() -> None:
    held = {"m1": Mac("boot of m1", mark()), "m2": Mac("b", mark("b", until=1))}
    assert set(judge_fleet(held, None, NOW).marks) == {"m1"}


def test_what_is_no_mark_is_read_as_none() -> None:
    good = mark().annotation()
    assert mark_of({JOBS_FAIL: good}) == mark()
    for bad in ("", "true", "{}", "[]", good.replace("+00:00", "").replace("Z", ""), '{"bootId":1}'):
        assert mark_of({JOBS_FAIL: bad}) is None


_ENDS = st.lists(
    st.builds(
        end,
        st.integers(1, 5),
        st.floats(0, 90),
        st.sampled_from(["failed_at_once", "never_began", "succeeded", "other"]),
        st.sampled_from(sorted(FLEET)),
        st.floats(0, 30),
    ),
    max_size=30,
)
_MARKS = st.none() | st.builds(mark, st.sampled_from(["boot of m1", "another"]), st.floats(0, 90), st.floats(-60, 30))


@given(_ENDS, st.dictionaries(st.sampled_from(sorted(FLEET)), st.tuples(_MARKS, st.booleans()), max_size=4))
def test_whatever_happened_no_mark_is_without_its_reason(
    ends: list[EndOnMac], known: dict[str, tuple[JobsFail | None, bool]]
) -> None:
    macs = FLEET | {name: Mac("boot of m1", held, serving) for name, (held, serving) in known.items()}
    judged = judge_fleet(macs, ends, NOW)
    failing: dict[str, set[int]] = defaultdict(set)
    never: dict[str, int] = defaultdict(int)
    for name in macs:
        good = max((e.at for e in ends if e.node == name and e.result == "succeeded"), default=None)
        failing[name] = {
            e.account_id
            for e in ends
            if e.node == name and e.result in ("failed_at_once", "never_began") and (good is None or e.at >= good)
        }
        never[name] = sum(e.node == name and e.result == "never_began" and (good is None or e.at >= good) for e in ends)
    fresh = {name for name, found in judged.marks.items() if found != macs[name].mark}
    for name in fresh:
        assert len(failing[name]) >= 3 or never[name] >= 3
        assert judged.marks[name].boot_id == macs[name].boot_id
        assert judged.marks[name].until > NOW
    holding = {name for name, found in judged.marks.items() if found.boot_id == macs[name].boot_id}
    serving = {name for name, mac in macs.items() if mac.serving}
    assert not holding or 2 * len(holding) < len(serving | holding), "most Macs go on"
    again = judge_fleet(
        {name: Mac(m.boot_id, judged.marks.get(name), m.serving) for name, m in macs.items()}, ends, NOW
    )
    assert again.marks == judged.marks, "a pass that is repeated changes nothing"
