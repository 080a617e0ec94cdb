"""Whose job it is."""

import asyncio

from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import Dispatcher


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


async def test_the_installation_counts_more_than_the_name(bench: Bench):
    # An account whose name here differs from the organisation's at GitHub.
    dispatcher = Dispatcher(bench)
    await bench.ledger.accounts.enrol(1, "acme-inc", 500)
    await bench.ledger.accounts.enrol(2, "acme", 600)
    await dispatcher.deliver(dispatcher.job(7, account=77, login="acme", installation=500))
    assert await account_of(bench, 7) == 1


async def test_an_account_enrolled_by_name_is_found_whatever_its_case_and_learns_its_installation(bench: Bench):
    dispatcher = Dispatcher(bench, enrol=False)
    await bench.ledger.accounts.enrol(1, "Acme")
    await dispatcher.deliver(dispatcher.job(7, account=77, login="aCME", installation=500))
    assert await account_of(bench, 7) == 1
    found = await bench.ledger.accounts.of_installation(500)
    assert found is not None
    assert (found.account_id, found.login) == (1, "Acme")


async def test_a_name_that_changed_hands_does_not_bring_the_old_account_along(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.ledger.accounts.enrol(1, "acme", 500)
    await dispatcher.deliver(dispatcher.job(7, account=99, login="acme", installation=900))
    assert await account_of(bench, 7) == 99
    old = await bench.ledger.accounts.of_installation(500)
    assert old is not None
    assert old.account_id == 1


async def test_a_newer_installation_replaces_the_older_and_a_late_word_does_not_bring_it_back(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, installation=500))
    await dispatcher.deliver(dispatcher.job(8, installation=600))
    await dispatcher.deliver(dispatcher.job(9, installation=500))
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(1, 600)]
    assert await account_of(bench, 9) == 1


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
    assert await say("new_permissions_accepted") == "ignored: unknown_action"
    assert dispatcher.counted("installation", "enrolled") == 3


async def test_without_an_installation_the_owner_is_enrolled_by_name(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, installation=None)) == ["queued"]
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(1, None)]
