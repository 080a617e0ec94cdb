"""Whose job it is."""

import asyncio
import json

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import Dispatcher

from paddock.runners.ledger import Outcome


async def account_of(bench: Bench, job_id: int) -> int:
    row = await bench.ledger.jobs.get(job_id)
    assert row is not None
    return row.account_id


async def test_an_unknown_account_is_enrolled_with_its_limits(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, account=42, login="acme", installation=500))
    account = await bench.ledger.accounts.of_installation(500)
    assert account is not None
    assert (account.account_id, account.login) == (42, "acme")
    assert len(await bench.ledger.limits.usage(42)) == 2


async def test_where_accounts_are_enrolled_by_hand_others_are_ignored(bench: Bench):
    dispatcher = Dispatcher(bench, enrol=False)
    for action in ("queued", "in_progress", "completed"):
        assert await dispatcher.deliver(dispatcher.job(7, action, runner_name="r")) == ["ignored: no_account"]
    created = dispatcher.installation("created", account=1, installation=1001)
    assert await dispatcher.deliver(created, event="installation") == ["ignored: no_account"]
    assert await bench.ask("SELECT FROM accounts") == []


async def test_a_login_that_changed_hands_brings_nothing_of_the_old_account_along(bench: Bench):
    # Also where the old account has no installation any more, and where the delivery names none.
    dispatcher = Dispatcher(bench)
    for old_installation, installation in ((500, 900), (None, 900), (None, None)):
        await bench.blank()
        await bench.ledger.accounts.enrol(1, "acme", old_installation)
        await bench.ledger.allow_list.allow(1, "acme", by="test", why="the old one")
        await bench.ledger.limits.set(1, "macos", vcpus=600, memory_mb=600_000, by="test", why="the old one")
        await dispatcher.deliver(dispatcher.job(7, account=99, login="ACME", installation=installation))
        assert await account_of(bench, 7) == 99
        old = await bench.ledger.accounts.get(1)
        assert old is not None
        assert (old.login, old.installation_id) == ("acme", old_installation)
        assert await bench.ledger.allow_list.standing(99) == ""
        assert {usage.vcpus for usage in await bench.ledger.limits.usage(99)} == {12, 32}


async def test_an_account_that_changed_its_login_keeps_limit_list_and_history(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1, vcpus=600, memory_mb=600_000)
    await dispatcher.deliver(dispatcher.job(7))
    await dispatcher.deliver(dispatcher.job(8, login="acme-incorporated"))
    assert await account_of(bench, 7) == await account_of(bench, 8) == 1
    (entry,) = await bench.ledger.allow_list.entries()
    assert (entry.account_id, entry.allowed, entry.name) == (1, True, "acme-incorporated")
    assert {usage.vcpus for usage in await bench.ledger.limits.usage(1)} == {600}
    assert [(await bench.claimed(n)).job_id for n in (1, 2)] == [7, 8]


async def test_an_installation_that_was_given_to_the_wrong_account_goes_to_its_own(bench: Bench):
    # What an older release left behind, which took the login for the account.
    await bench.ledger.accounts.enrol(1, "acme", 900)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, account=99, login="acme", installation=900))
    assert await bench.ask("SELECT account_id, installation_id FROM accounts ORDER BY account_id") == [
        (1, None),
        (99, 900),
    ]


async def test_a_newer_installation_replaces_the_older_and_a_late_word_does_not_bring_it_back(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, installation=500))
    await dispatcher.deliver(dispatcher.job(8, installation=600))
    await dispatcher.deliver(dispatcher.job(9, installation=500))
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(1, 600)]
    assert await account_of(bench, 9) == 1


async def test_an_account_of_which_the_same_is_said_is_looked_up_again_after_half_a_minute(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    dispatcher = Dispatcher(bench)
    for job_id in (7, 8):
        await dispatcher.deliver(dispatcher.job(job_id, login="acme"))
    await bench.ledger.accounts.enrol(1, "of-another-process", 1001)

    async def login_after(job_id: int) -> str:
        await dispatcher.deliver(dispatcher.job(job_id, login="acme"))
        assert await account_of(bench, job_id) == 1
        account = await bench.ledger.accounts.get(1)
        assert account is not None
        return account.login

    assert await login_after(9) == "of-another-process"
    later = bench.clock.monotonic() + 31
    monkeypatch.setattr(bench.clock, "monotonic", lambda: later)
    assert await login_after(10) == "acme"


async def test_an_installation_that_a_late_word_took_away_is_given_back_by_the_next_job(bench: Bench):
    dispatcher = Dispatcher(bench)
    for job_id in (7, 8):
        await dispatcher.deliver(dispatcher.job(job_id, installation=500))
    removed = dispatcher.installation("suspend", account=1, installation=500)
    assert await dispatcher.deliver(removed, event="installation") == ["removed"]
    assert await bench.ask("SELECT installation_id FROM accounts") == [(None,)]
    await dispatcher.deliver(dispatcher.job(9, installation=500))
    assert await bench.ask("SELECT installation_id FROM accounts") == [(500,)]


async def test_many_first_words_of_one_account_at_once_enrol_it_once(bench: Bench):
    desks = [Dispatcher(bench) for _ in range(3)]
    for n in range(1, 49):
        await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", desks[0].job(n, account=42, installation=500))
    await asyncio.gather(*(dispatcher.worker.drain() for dispatcher in desks))
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(42, 500)]
    assert await bench.ask("SELECT count(*) FROM jobs") == [(48,)]


async def test_installing_removing_suspending_and_coming_back(bench: Bench):
    dispatcher = Dispatcher(bench)

    async def say(action: str, installation: int = 1001) -> str:
        (outcome,) = await dispatcher.deliver(
            dispatcher.installation(action, account=1, installation=installation), event="installation"
        )
        return outcome

    async def installed() -> list[tuple[object, ...]]:
        return await bench.ask("SELECT installation_id FROM accounts")

    assert (await say("created"), await installed()) == ("enrolled", [(1001,)])
    assert (await say("suspend"), await installed()) == ("removed", [(None,)])
    assert (await say("unsuspend"), await installed()) == ("enrolled", [(1001,)])
    assert (await say("deleted"), await installed()) == ("removed", [(None,)])
    assert await say("deleted") == "ignored: unknown_installation"
    assert (await say("created", 1002), await installed()) == ("enrolled", [(1002,)])
    assert (await say("deleted", 1001), await installed()) == ("ignored: unknown_installation", [(1002,)])
    assert (await say("new_permissions_accepted", 1002), await installed()) == ("permitted", [(1002,)])
    assert await say("new_permissions_accepted", 1001) == "ignored: unknown_installation"
    assert await say("transferred") == "ignored: unknown_action"
    assert dispatcher.counted("installation", "enrolled") == 3


async def test_a_new_login_is_noted_at_once_and_enrols_nobody(bench: Bench):
    dispatcher = Dispatcher(bench)

    async def renamed(account: int, login: str, installation: int, action: str = "renamed") -> str:
        body = {"action": action, "account": {"id": account, "login": login}, "installation": {"id": installation}}
        (outcome,) = await dispatcher.deliver(json.dumps(body).encode(), event="installation_target")
        return outcome

    await dispatcher.deliver(dispatcher.job(7, account=1, login="acme", installation=500))
    assert await renamed(1, "acme-inc", 500) == "renamed"
    assert await renamed(99, "stranger", 501) == "ignored: unknown_installation"
    assert await renamed(1, "other", 500, action="moved") == "ignored: unknown_action"
    assert (await dispatcher.deliver(b'{"action": "renamed"}', event="installation_target"))[0] == "ignored: malformed"
    assert await bench.ask("SELECT account_id, login, installation_id FROM accounts") == [(1, "acme-inc", 500)]
    assert dispatcher.counted("installation", "renamed") == 1


async def test_without_an_installation_the_owner_is_enrolled_by_its_number(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, installation=None)) == ["queued"]
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(1, None)]


async def test_a_job_of_nobody_on_the_list_is_kept_and_not_handed_out(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, account=42, login="stranger")) == ["queued"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    assert await bench.status(7) == "queued"
