"""The page of one object: the same words as `paddock why`, and the whole of a job's wait."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from unit.hosts.made import NOW
from unit.web.page_fixture import page_data

from paddock.base.explanation import Explanation
from paddock.hosts.why import why_host
from paddock.runners.http.readonly import JobPage
from paddock.runners.ledger import Job, Session, Transition
from paddock.web.links import about_href, linked, sentence_case
from paddock.web.object_pages import object_page
from paddock.web.objects import ObjectPage, page_of
from paddock.web.phases import phases_of
from paddock.web.shell import Site
from paddock.web.timeline import of_transitions, timeline


def at(seconds: float):
    return NOW + timedelta(seconds=seconds)


async def test_a_host_page_says_what_paddock_why_says() -> None:
    seen = page_data(12, now=NOW)
    page = await page_of("host", seen.hosts[3].metadata.name, seen, None)
    assert page is not None
    assert page.why == why_host(seen.hosts[3], seen.machines, NOW)
    assert "quarantine" in page.verbs


async def test_a_mac_is_found_by_its_machine_and_leads_to_its_pod_and_job() -> None:
    page = await page_of("machine", "mac-fleet-00000", page_data(12, now=NOW), None)
    assert page is not None
    assert [one.kind for one in page.related] == ["host", "fleet", "pod", "job"]
    assert page.verbs == ["drain", "release"]


async def test_a_pod_page_says_what_dispatch_says_of_it_as_paddock_why_does() -> None:
    """Dispatch alone knows that it refuses a Pod for its token."""
    said = Explanation(about="pod x", sentence="refused by dispatch: its token is for others", healthy=False)

    class Dispatch:
        async def pod(self, _name: str) -> Explanation | None:
            return said

    class Reader:
        explainer = Dispatch()

        async def pod(self, _uid: str) -> None:
            return None

        async def log(self, _uid: str) -> None:
            return None

    reader: Any = Reader()
    seen = page_data(12, now=NOW)
    page = await page_of("pod", seen.pods[0].metadata.name, seen, reader)
    assert page is not None
    assert page.why == said


async def test_what_is_not_listed_is_at_least_counted() -> None:
    seen = page_data(400, 300, now=NOW)
    for kind, name, others in (("fleet", "mac-fleet", seen.machines), ("pool", "macos", seen.pods)):
        page = await page_of(kind, name, seen, None)
        assert page is not None
        assert len(page.related) + page.more == len(others)
        assert page.more > 0


async def test_nobody_has_heard_of_what_is_not_there() -> None:
    for kind in ("host", "machine", "fleet", "pool", "pod", "job"):
        assert await page_of(kind, "nothing", page_data(4, now=NOW), None) is None


def job(**fields) -> Job:
    values = dict.fromkeys(Job.__struct_fields__, "")
    values |= {"job_id": 1, "enqueued_at": at(0), "claimed_at": at(30.4), "started_at": at(31), "status": "running"}
    return Job(**{**values, **fields})


def test_the_whole_wait_is_shown_in_order_although_github_counts_in_whole_seconds() -> None:
    session = Session(**{**dict.fromkeys(Session.__struct_fields__, None), "job_started_at": at(30)})
    phases = phases_of(JobPage(job(), None, None, [session], []), at(90))
    assert [phase.name for phase in phases] == ["queued", "claimed", "handed over", "running"]
    assert phases[0].began == at(0)
    assert phases[-1].ended == at(90)
    assert all(one.ended <= after.began for one, after in pairwise(phases))


def test_a_job_that_still_waits_has_one_lap_until_now() -> None:
    (phase,) = phases_of(JobPage(job(claimed_at=None, started_at=None), None, None, [], []), at(600))
    assert (phase.name, phase.ended - phase.began) == ("queued", timedelta(minutes=10))


def test_a_timeline_is_newest_first_and_says_who_did_what() -> None:
    lines = [
        Transition(
            transition_id=number, at=at(number), subject="job", job_id=1, account_id=1, pod_uid=None, generation=1,
            was="queued", became="claimed", by="dispatch", why="waiting Pod takes the job",
        )
        for number in (1, 2)
    ]  # fmt: skip
    shown = timeline(of_transitions(lines))
    assert [line.at for line in shown] == [at(2), at(1)]
    assert (shown[0].what, shown[0].text) == ("job queued → claimed", "dispatch: waiting Pod takes the job")


def test_sentences_link_what_they_name_and_nothing_else() -> None:
    html = "".join(
        str(node) for node in linked("job 40000000001 runs on Pod macos-runner-1, next in line for pool of hers")
    )
    assert 'href="/jobs/40000000001"' in html
    assert 'href="/pods/macos-runner-1"' in html
    assert "/pools/" not in html
    assert about_href("3 machines") is None
    assert about_href("host a/b") == "/hosts/a%2Fb"


def test_a_sentence_begins_with_a_capital_and_a_name_keeps_its_spelling() -> None:
    assert sentence_case("over: success 5 s ago") == "Over: success 5 s ago"
    for named in ("acme/app · build has waited 5 s", "mac-fleet-0 is ready", "8 of 8 Macs are ready", ""):
        assert sentence_case(named) == named


def test_a_job_page_spells_the_repository_as_github_does() -> None:
    why = Explanation(about="job 1", sentence="acme/app · build has waited 5 s: the account is at its limit")
    html = str(object_page(Site("here"), ObjectPage("job", "1", why), lambda _: None))
    assert "acme/app · build has waited 5 s" in html
    assert "Acme/app" not in html


def test_a_job_page_shows_the_runners_log_and_obeys_none_of_it() -> None:
    why = Explanation(about="job 1", sentence="runs")
    html = str(
        object_page(Site("here"), ObjectPage("job", "1", why, log="<b>Listening for Jobs</b>\n"), lambda _: None)
    )
    assert "&lt;b&gt;Listening for Jobs&lt;/b&gt;" in html
    assert "paddock logs job/1 -f" in html
    assert "log-title" not in str(object_page(Site("here"), ObjectPage("job", "1", why), lambda _: None))
