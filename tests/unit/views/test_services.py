"""What is said of those who do the work, by status and page alike."""

from datetime import timedelta

from unit.hosts.made import NOW
from unit.views.test_health import look

from paddock.base.clock import rfc3339_micro
from paddock.base.refusals import Refusal
from paddock.hosts.listing import UNLISTED_ZONES, unlisted_zones_note
from paddock.kube.builtin import Lease, LeaseSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import space_concern, writes_concern
from paddock.views.leadership import nobody_leads
from paddock.views.problems.services import DISPATCH, LINE, Unread


def lease(holder: str | None, ago: float) -> Lease:
    renewed = rfc3339_micro(NOW - timedelta(seconds=ago))
    return Lease(spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=renewed))


def test_a_database_that_takes_no_writes_is_the_cause_and_reads_that_fail_beside_it_are_not_told():
    refused = writes_concern(Refusal(NOW, 3, "disk full"), "the ledger's database", "no job is claimed")
    health = look(summary=None, concerns=refused, unread=[Unread(LINE, "no connection is free")])
    [problem] = health.problems
    assert (problem.about, problem.since) == ("database", NOW)
    assert problem.sentence == (
        "the ledger's database takes no writes, so no job is claimed: disk full (refused 3 times so far)"
    )
    assert not health.ok


def test_a_disk_that_fills_is_told_before_it_is_full_and_one_with_room_is_not():
    assert space_concern(".paddock", 40 * 2**30) == []
    [problem] = look(concerns=space_concern(".paddock", 2**29)).problems
    assert problem.sentence.startswith("0.5 GiB are left on the disk of .paddock: when it is full, no job is claimed")


def test_advice_is_the_doctors_and_no_problem():
    assert look(concerns=[Concern(about="database's TLS", found="no sslmode", fix="end it")]).ok


def test_one_slow_list_is_named_and_dispatch_is_not_called_away():
    [problem] = look(unread=[Unread("the list of what was healed", "it took too long")]).problems
    assert problem.sentence == "the list of what was healed cannot be read: it took too long"


def test_a_service_that_does_not_answer_leaves_open_whether_jobs_are_handed_out():
    [problem] = look(summary=None, unread=[Unread(DISPATCH, "connection refused")]).problems
    assert problem.sentence == (
        "the dispatch service does not answer, so nobody can say here whether jobs are handed out: connection refused"
    )


def test_whoever_renewed_last_counts_and_a_lease_that_was_given_back_is_nobodys():
    assert nobody_leads([lease("old_x", 900), lease("new_y", 2)], NOW) == ""
    assert nobody_leads([lease("old_x", 900)], NOW) == "old was last heard of 15 min ago"
    assert nobody_leads([lease(None, 2)], NOW) == "the last one gave its lease back"
    assert nobody_leads([], NOW) == "none has ever led"
    assert nobody_leads([], NOW, observed=True) == ""


def test_a_zone_that_only_the_lease_of_the_leader_knows_of_is_a_problem():
    note = {UNLISTED_ZONES: unlisted_zones_note({"fr-par-1": "zone fr-par-1 could not be listed: 401"})}

    def noted(one: Lease) -> list[str]:
        said = Lease(spec=one.spec, metadata=ObjectMeta(annotations=note))
        return [problem.sentence for problem in look(leases=[said]).problems]

    assert noted(lease("new_y", 2)) == noted(Lease()) == ["zone fr-par-1 could not be listed: 401"]
    assert noted(lease("old_x", 900)) == [], "what one said that leads no more is nobody's word"
    assert nobody_leads([Lease(metadata=ObjectMeta(annotations=note))], NOW) == "", "it leads without an election"
    note[UNLISTED_ZONES] = "by hand"
    assert noted(lease("new_y", 2)) == []


def test_no_operator_is_a_problem_of_everything_it_would_do():
    [problem] = look(leaderless="none has ever led").problems
    assert problem.sentence == (
        "no operator leads, so no Mac is claimed, healed or given back, and no Pod is made: none has ever led"
    )
