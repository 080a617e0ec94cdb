"""Every state of a claim, judged against rules that are written down a second time and differently."""

import itertools
from datetime import timedelta

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.claim import ClaimView, judge

SETTINGS = HealingSettings()
AGES = [timedelta(seconds=s) for s in (0, 29, 30, 179, 180, 299, 300, 86_400, 30 * 86_400)]


def _states() -> list[ClaimView]:
    return [
        ClaimView(minted, age, silent, over, executor != "nobody", executor == "itself", busy)
        for minted, age, silent, over, executor, busy in itertools.product(
            (False, True), AGES, (False, True), (None, *AGES), ("nobody", "another", "itself"), (False, True)
        )
    ]


def _oracle(claim: ClaimView) -> str:
    """The kind under which a claim may end, from the rules of docs/design/healing.md, or nothing."""
    five, three, half = timedelta(minutes=5), timedelta(minutes=3), timedelta(seconds=30)
    stale = not claim.minted and (claim.age >= five or (claim.dispatcher_silent and claim.age >= half))
    proven = claim.over_for is not None and not claim.busy_elsewhere
    settled = claim.over_for is not None and (claim.executor_named or claim.over_for >= three)
    completed = claim.minted and proven and settled and claim.age >= five
    return "stale_claim" if stale else "completed_claim" if completed else ""


def test_every_state_of_a_claim_is_judged_as_the_rules_say():
    for claim in _states():
        verdict = judge(claim, SETTINGS)
        assert verdict.kind == _oracle(claim), claim
        assert verdict.release == bool(verdict.kind), claim
        assert verdict.sentence, claim


def test_no_running_claim_is_ever_freed_by_its_age():
    unproven = [claim for claim in _states() if claim.minted and claim.over_for is None]
    assert unproven
    assert not any(judge(claim, SETTINGS).release for claim in unproven)


def test_no_claim_whose_runner_executes_another_job_is_freed():
    busy = [claim for claim in _states() if claim.minted and claim.busy_elsewhere]
    assert not any(judge(claim, SETTINGS).release for claim in busy)


def test_a_runner_that_may_still_be_idle_is_unregistered_before_its_slot_is_free():
    freed = [(claim, judge(claim, SETTINGS)) for claim in _states() if claim.minted and judge(claim, SETTINGS).release]
    assert freed
    assert all(verdict.unregister != claim.executed_it for claim, verdict in freed)


def test_every_claim_that_nobody_will_finish_ends_within_its_time():
    for claim in _states():
        if not claim.minted and claim.age >= SETTINGS.claim_grace:
            assert judge(claim, SETTINGS).release, claim
        over = claim.over_for is not None and claim.over_for >= SETTINGS.claim_grace and not claim.busy_elsewhere
        if over and claim.age >= SETTINGS.claim_grace:
            assert judge(claim, SETTINGS).release, claim
