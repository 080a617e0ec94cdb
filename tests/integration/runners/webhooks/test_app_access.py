"""What people do with the App at GitHub reaches whoever waits for it: at once, and without a retry storm."""

from datetime import timedelta

import pytest
from integration.runners.ledger.rig import POOL, Bench
from integration.runners.webhooks.rig import Dispatcher

from paddock.runners.ledger import Outcome
from paddock.runners.ledger.app_access import RATE_LIMITED
from paddock.runners.ledger.claims import Scope


async def refused(bench: Bench, number: int, scope: Scope) -> None:
    """A mint that GitHub refuses: job, and repository or account, rest."""
    claim = await bench.claimed(number)
    await bench.ledger.claims.mint_failed(claim, by="test", why="403", scope=scope, retry_after=60.0)


@pytest.mark.parametrize("action", ["created", "unsuspend", "new_permissions_accepted"])
async def test_what_rested_for_want_of_a_permission_goes_as_soon_as_somebody_gives_it(bench: Bench, action: str):
    await bench.accounts(1, 2)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8, account=2))
    for number in (1, 2):
        await refused(bench, number, "account")
    assert (await bench.claim(3)).outcome is Outcome.EMPTY
    heard: list[frozenset[str]] = []
    with bench.ledger.notifications.heard_here(heard.append):
        await dispatcher.deliver(dispatcher.installation(action, account=1, installation=1001), event="installation")
    assert frozenset({POOL}) in heard
    assert (await bench.claimed(3)).job_id == 7
    assert (await bench.claim(4)).outcome is Outcome.EMPTY, "another account's rest is its own"


async def test_a_rest_that_githubs_limit_asked_for_is_ended_by_no_access_that_is_given(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    claim = await bench.claimed(1)
    limited = {"by": "test", "why": f"{RATE_LIMITED}: secondary limit", "scope": "account", "retry_after": 600.0}
    await bench.ledger.claims.mint_failed(claim, **limited)
    accepted = dispatcher.installation("new_permissions_accepted", account=1, installation=1001)
    await dispatcher.deliver(accepted, event="installation")
    assert (await bench.claim(2)).outcome is Outcome.EMPTY
    bench.clock.advance(15 * 60)
    assert (await bench.claimed(2)).job_id == 7


async def test_a_word_of_a_replaced_or_suspended_installation_or_of_a_stranger_ends_no_rest(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    await refused(bench, 1, "account")
    accepted = dispatcher.installation("new_permissions_accepted", account=1, installation=1000)
    suspended = dispatcher.installation("new_permissions_accepted", account=1, installation=1001).replace(
        b'"account": {', b'"suspended_at": "2026-01-01T00:00:00Z", "account": {'
    )
    stranger = dispatcher.installation("new_permissions_accepted", account=66, installation=1066)
    assert set(await dispatcher.deliver(accepted, suspended, stranger, event="installation")) == {
        "ignored: unknown_installation"
    }
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    assert await bench.ask("SELECT account_id FROM accounts") == [(1,)]


async def test_a_repository_that_is_taken_from_the_app_rests_and_says_so_until_it_is_given_again(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))

    async def say(action: str, **numbers: int) -> list[str]:
        said = dispatcher.repositories(action, account=1, installation=1001, **numbers)
        return await dispatcher.deliver(said, event="installation_repositories")

    assert await say("removed", app=5) == ["repositories_removed"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    waiting = await bench.ledger.overview.waiting(7)
    assert waiting is not None
    assert waiting.reason == "repository_resting"
    assert "add the repository to the App's installation again" in waiting.why
    assert await say("added", web=6) == ["repositories_added"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY, "another repository was given"
    assert await say("added", app=5) == ["repositories_added"]
    assert (await bench.claimed(1)).job_id == 7
    assert dispatcher.counted("installation", "repositories_added") == 2


async def test_where_all_repositories_are_given_and_none_is_named_every_rest_ends(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    for action, numbers in (("removed", {"app": 5}), ("added", {})):
        assert (await bench.ask("SELECT count(*) FROM setbacks")) == [(0 if action == "removed" else 1,)]
        said = dispatcher.repositories(action, account=1, installation=1001, **numbers)
        await dispatcher.deliver(said, event="installation_repositories")
    assert (await bench.claimed(1)).job_id == 7


async def test_a_mint_that_fails_after_the_rest_of_a_removal_rests_as_long_again(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    removed = dispatcher.repositories("removed", account=1, installation=1001, app=5)
    await dispatcher.deliver(removed, event="installation_repositories")
    bench.clock.moment += timedelta(minutes=15)
    await refused(bench, 1, "repository")
    bench.clock.moment += timedelta(minutes=14)
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    bench.clock.moment += timedelta(minutes=2)
    assert (await bench.claimed(1)).job_id == 7


async def test_a_renamed_repository_is_found_by_its_number(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    said = dispatcher.job(7).replace(b'"full_name": "org1/app"', b'"id": 5, "full_name": "org1/former"')
    await dispatcher.deliver(said)
    for action, outcome in (("removed", Outcome.EMPTY), ("added", Outcome.CLAIMED)):
        word = dispatcher.repositories(action, account=1, installation=1001, app=5)
        await dispatcher.deliver(word, event="installation_repositories")
        assert (await bench.claim(1)).outcome is outcome


async def test_malformed_words_about_repositories_are_ignored_with_a_sentence(bench: Bench):
    dispatcher = Dispatcher(bench)
    for body, outcome in (
        (b'{"action": "added"}', "malformed"),
        (b'{"action": "added", "installation": {"id": 0}}', "malformed"),
        (b'{"action": "moved"}', "unknown_action"),
        (b"[", "malformed"),
    ):
        assert await dispatcher.deliver(body, event="installation_repositories") == [f"ignored: {outcome}"]


async def test_a_refused_scale_set_of_the_account_is_to_begin_anew_and_no_other(bench: Bench):
    await bench.accounts(1, 2)
    now = bench.clock.now()
    dispatcher, mine = Dispatcher(bench), await bench.ledger.dispatchers.register("here")
    rows = bench.ledger.scale_sets
    for account in (1, 2):
        source = await rows.take(POOL, account, "", dispatcher=mine, silent_since=now)
        assert source is not None
        await rows.note(source, "Refused", "grant it")
    bench.clock.moment += timedelta(seconds=5)
    for _ in range(2):
        accepted = dispatcher.installation("new_permissions_accepted", account=1, installation=1001)
        await dispatcher.deliver(accepted, event="installation")
        assert await rows.starting() == {(POOL, 1, ""): now + timedelta(seconds=5)}
    assert [(source.account_id, source.state) for source in await rows.sources()] == [(1, "Starting"), (2, "Refused")]
