"""Every state of a claim, judged against rules that are written down a second time and differently."""

import itertools
from datetime import timedelta

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.claim import ClaimView, judge

SETTINGS = HealingSettings()
AGES = [timedelta(seconds=s) for s in (0, 29, 30, 179, 180, 299, 300, 86_400, 30 * 86_400)]
# Its job is on, over, or with another runner. The ledger says one of the three: a claim without a job has none that is over.
FATES = [(None, None), *((age, None) for age in AGES), *((None, age) for age in AGES)]


def _states() -> list[ClaimView]:
    return [
        ClaimView(
            minted,
            age,
            dispatcher_silent=silent,
            over_for=over,
            executor_named=executor != "nobody",
            executed_it=executor == "itself",
            displaced_for=displaced,
            busy_elsewhere=busy,
        )
        for minted, age, silent, (over, displaced), executor, busy in itertools.product(
            (False, True), AGES, (False, True), FATES, ("nobody", "another", "itself"), (False, True)
        )
        if displaced is None or minted  # a claim without a runner has none that could be without a job
    ]


def _oracle(claim: ClaimView) -> str:
    """The kind under which a claim may end, from the rules of docs/design/healing.md, or nothing."""
    five, three, half = timedelta(minutes=5), timedelta(minutes=3), timedelta(seconds=30)
    stale = not claim.minted and (claim.age >= five or (claim.dispatcher_silent and claim.age >= half))
    proven = claim.over_for is not None and not claim.busy_elsewhere
    settled = claim.over_for is not None and (claim.executor_named or claim.over_for >= three)
    completed = claim.minted and proven and settled and claim.age >= five
    displaced = claim.minted and not claim.busy_elsewhere and (claim.displaced_for or timedelta()) >= three
    may_end = {"stale_claim": stale, "completed_claim": completed, "displaced_claim": displaced}
    kinds = [kind for kind, may in may_end.items() if may]
    assert len(kinds) <= 1, claim
    return kinds[0] if kinds else ""


def test_every_state_of_a_claim_is_judged_as_the_rules_say():
    for claim in _states():
        verdict = judge(claim, SETTINGS)
        assert verdict.kind == _oracle(claim), claim
        assert verdict.release == bool(verdict.kind), claim
        assert verdict.sentence, claim


def test_no_running_claim_is_ever_freed_by_its_age():
    unproven = [claim for claim in _states() if claim.minted and claim.over_for is None and claim.displaced_for is None]
    assert unproven
    assert not any(judge(claim, SETTINGS).release for claim in unproven)


def test_no_claim_whose_runner_executes_another_job_is_freed():
    busy = [claim for claim in _states() if claim.minted and claim.busy_elsewhere]
    assert not any(judge(claim, SETTINGS).release for claim in busy)


def test_a_runner_that_may_still_be_idle_is_unregistered_before_its_slot_is_free():
    freed = [(claim, judge(claim, SETTINGS)) for claim in _states() if claim.minted and judge(claim, SETTINGS).release]
    assert freed
    assert {verdict.kind for _, verdict in freed} == {"completed_claim", "displaced_claim"}
    for claim, verdict in freed:
        spent = claim.over_for is not None and claim.executed_it  # a runner of one job, which it has had
        assert verdict.unregister != spent, claim


def test_every_claim_that_nobody_will_finish_ends_within_its_time():
    for claim in _states():
        if not claim.minted and claim.age >= SETTINGS.claim_grace:
            assert judge(claim, SETTINGS).release, claim
        over = claim.over_for is not None and claim.over_for >= SETTINGS.claim_grace and not claim.busy_elsewhere
        if over and claim.age >= SETTINGS.claim_grace:
            assert judge(claim, SETTINGS).release, claim
        displaced = claim.displaced_for is not None and claim.displaced_for >= SETTINGS.displaced_grace
        if displaced and not claim.busy_elsewhere:
            assert judge(claim, SETTINGS).release, claim
