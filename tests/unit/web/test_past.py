"""A Mac's past and a moment of the past, as values and as pages."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from paddock.runners.ledger.incidents import Incident
from paddock.runners.ledger.mac_states import MacStretch, RanOnMac
from paddock.runners.ledger.rewind import JobThen, PoolThen, Then
from paddock.web.mac_past import past_of, stays_of
from paddock.web.parts.mac_past import mac_past
from paddock.web.rewind_page import rewind_page
from paddock.web.shell import Site
from paddock.web.then import FleetThen, changed_macs, groups_then, moment_of

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def stretch(state: str, began: float, until: float | None, machine: str = "", host: str = "h") -> MacStretch:
    """Hours before now."""
    return MacStretch(
        host=host,
        at=NOW - began * HOUR,
        until=None if until is None else NOW - until * HOUR,
        state=state,
        machine=machine,
        title=machine or host,
        zone="fr-par-1",
        fleet="f" if machine else "",
        price=0.3,
    )


LIFE = [
    stretch("free", 10, 9),
    stretch("setup", 9, 8, "m-1"),
    stretch("busy", 8, 6, "m-1"),
    stretch("wiping", 6, 5),
    stretch("failing", 5, 4, "m-2"),
    stretch("ready", 4, None, "m-2"),
]


def test_a_life_is_the_time_in_which_a_mac_was_one_machine():
    past = past_of(LIFE, (), [(7, 1), (3, 2)], NOW)
    assert past is not None
    assert [(life.machine, life.until, life.jobs, life.failed_jobs) for life in past.lives] == [
        ("m-2", None, 7, 1),
        ("m-1", NOW - 6 * HOUR, 3, 2),
    ]
    assert [stay[0] for stay in stays_of(LIFE, NOW)] == ["m-2", "m-1"]
    assert past.lives[0].recoveries == 1
    assert (past.known, past.up, past.busy) == (10 * HOUR, 6 * HOUR, 2 * HOUR)
    assert past.uptime == pytest.approx(0.6)


def test_a_mac_costs_while_it_is_there_and_the_part_with_a_job_is_told():
    past = past_of(LIFE, (), [(0, 0), (0, 0)], NOW)
    assert past is not None
    assert past.cost == pytest.approx(3.0)
    assert past.cost_busy == pytest.approx(0.6)


def test_of_a_mac_that_was_never_seen_nothing_is_told():
    assert past_of([], (), [], NOW) is None


def test_the_page_of_a_mac_tells_its_jobs_and_what_each_held():
    ran = RanOnMac(
        pod_uid="u", pod_name="p", node_name="m-1", job_id=5, repository="acme/app", job_name="<b>ui</b>",
        started_at=NOW - 8 * HOUR, ended_at=NOW - 7 * HOUR, conclusion="failure",
    )  # fmt: skip
    past = past_of(LIFE, (ran,), [(0, 0), (1, 1)], NOW)
    assert past is not None
    html = str(mac_past(past, "EUR", NOW))
    assert "/jobs/5" in html
    assert "0.300 EUR" in html
    assert "&lt;b&gt;ui" in html
    assert "1 failed job" in html


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", NOW - timedelta(minutes=5)),
        ("2026-11-16T11:00:00Z", NOW - HOUR),
        ("2026-11-16T11:00:00", NOW - HOUR),
        ("2026-11-16T12:00:00+01:00", NOW - HOUR),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(text: str, at: datetime):
    assert moment_of(text, NOW) == at


def test_what_is_no_moment_of_the_past_is_refused_in_a_sentence():
    assert "no moment" in str(moment_of("yesterday", NOW))
    assert "lies ahead" in str(moment_of("2027-01-01T00:00:00Z", NOW))


def test_macs_that_changed_came_or_went_are_told():
    then = [
        stretch("busy", 2, None, "m-1", "a"),
        stretch("ready", 2, None, "m-2", "b"),
        stretch("free", 2, None, "", "c"),
    ]
    now = groups_then(
        [
            stretch("ready", 1, None, "m-1", "a"),
            stretch("ready", 2, None, "m-2", "b"),
            stretch("free", 1, None, "", "d"),
        ]
    )
    assert [(one.host, one.was, one.became) for one in changed_macs(then, now)] == [
        ("c", "free", ""),
        ("d", "", "free"),
        ("a", "busy", "ready"),
    ]


def fleet_then(macs: Sequence[MacStretch] = (), kept: datetime | None = NOW - 3 * HOUR) -> FleetThen:
    at = NOW - 2 * HOUR
    job = JobThen(
        job_id=9, login="acme", repository="acme/app", workflow_name="CI", job_name="lint", pool="macos", state="queued",
        since=at, why="", pod_uid=None, enqueued_at=at, now="completed", conclusion="success", completed_at=NOW - HOUR,
    )  # fmt: skip
    problem = Incident(
        incident_id=1, kind="problem", key="k", about="host a", sentence="it is orphaned", at=at, until=NOW - HOUR
    )
    pool = PoolThen(pool="macos", queued=1, claimed=0, running=0, oldest_queued_seconds=3.0)
    return FleetThen(
        at=at,
        now=NOW,
        ledger=Then(at=at, kept_since=kept, pools=[pool], jobs=[job], fences=[], lines=[]),
        macs=macs,
        problems=[problem],
        new_problems=[],
        heals={"pod_hung": 2},
        killed=1,
        known_since=NOW - 3 * HOUR,
    )


def test_the_page_of_a_moment_tells_what_was_and_what_became_of_it():
    macs = [stretch("busy", 2.5, 1, "m-1", "a")]
    html = str(
        rewind_page(
            Site("x"), fleet_then(macs), groups_then([stretch("ready", 1, None, "m-1", "a")]), retention=30 * 24 * HOUR
        )
    )
    assert "1 job waited" in html
    assert "Problems then" in html
    assert "over at" in html
    assert "1 Mac of 1 is in another state now" in html
    assert "2 pod hung" in html
    assert 'data-first="2026-11-16T09:00:00Z"' in html


def test_what_is_not_known_any_more_is_a_dash_and_never_a_zero():
    html = str(rewind_page(Site("x"), fleet_then(kept=None), (), retention=HOUR))
    assert "is not known" in html
    assert html.count('<dd class="value">\N{EN DASH}</dd>') == 6
