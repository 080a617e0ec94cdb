"""Who may run jobs, in the living world: real tokens, real routes, real statements; GitHub and the Macs are played."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from integration.runners.jobs.world import LABEL, POOL, World

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.api import ACCOUNTS_AUDIENCE, AUDIENCE, RunnerPool
from paddock.simulator.github import Fault, FaultKind

_schemas = itertools.count()


@pytest_asyncio.fixture
async def world(server: EmbeddedPostgres) -> AsyncIterator[World]:
    async with World(server.dsn, f"tenants_{next(_schemas)}", macs=2).living() as world:
        yield world


async def change(world: World, verb: str, name: str, *, account: str = "paddock-dispatch", audience: str = ACCOUNTS_AUDIENCE) -> Any:  # fmt: skip
    token, _ = await world.client.create_token(account, "default", audiences=[audience])
    body = {"token": token.reveal(), "verb": verb, "name": name, "by": "test", "dry_run": False}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(world._app), base_url="http://dispatch.test") as http:
        return await http.post("/api/v1/allow-list", json=body)


async def finished(world: World) -> None:
    await world.until("every job is over in every ledger", world.all_done, within=60.0)
    assert {world.github.job(job.id).conclusion for job in world.submitted} == {"success"}
    await world.nothing_is_left()


async def test_denied_while_its_job_runs_and_allowed_again(world: World) -> None:
    for account, audience in (("paddock-operator", ACCOUNTS_AUDIENCE), ("paddock-dispatch", AUDIENCE)):
        assert (await change(world, "deny", "acme", account=account, audience=audience)).status_code == 403
    (running,) = world.submit(1, seconds=300)
    await world.until("it runs", lambda: world.github.job(running.id).status == "in_progress")
    assert (await change(world, "deny", "acme")).json()["changed"]
    (kept,) = world.submit(1)

    async def waits_for_a_decision() -> bool:
        waiting = await world.ledger.overview.waiting(kept.id)
        return waiting is not None and waiting.reason == "not_allowed"

    await world.until("the new one says why it waits", waits_for_a_decision)
    await world.until("the running one ends by itself", lambda: world.github.job(running.id).status == "completed")
    assert world.github.job(kept.id).status == "queued"
    assert (await change(world, "allow", "acme")).json()["changed"]
    await finished(world)


@pytest.mark.slow
async def test_a_stranger_who_installs_the_app_is_kept_waiting_and_gets_no_mac(world: World) -> None:
    stranger = world.github.add_organization("stranger", "miner")
    stranger.permissions["administration"] = (
        "write"  # one repository will be allowed, and a runner is registered with it alone
    )
    job = world.github.submit("stranger/miner", labels=(LABEL,), duration=30)

    async def kept() -> bool:
        return await world.ledger.jobs.get(job.id) is not None

    await world.until("it is announced", kept)
    world.submit(3)
    await finished(world)
    assert world.github.job(job.id).status == "queued"
    assert await world.ledger.allow_list.standing(stranger.id) == ""
    assert (await change(world, "allow", "stranger/miner")).json()["changed"]
    world.submitted.append(job)
    await finished(world)


@pytest.mark.slow
async def test_where_the_default_group_is_closed_jobs_run_on_runners_of_their_repository(world: World) -> None:
    world.account.permissions["administration"] = "write"
    world.github.close_default_group("acme")
    world.submit(3)
    await finished(world)


@pytest.mark.slow
async def test_a_group_that_is_refused_spends_no_mac_and_jobs_go_on_once_it_is_there(world: World) -> None:
    await world.client.merge_patch(RunnerPool, POOL, {"spec": {"runnerGroup": "macs"}}, namespace="default")
    (job,) = world.submit(1)

    async def said() -> bool:
        waiting = await world.ledger.overview.waiting(job.id)
        return waiting is not None and "has no runner group 'macs'" in waiting.why

    await world.until("it says which group is missing", said)
    assert not world.github.state.runners
    world.github.add_group("acme", "macs", "app")
    async with world.ledger.allow_list._database.connection() as connection:  # a minute's rest is not waited for here
        await connection.execute("DELETE FROM setbacks")
        await connection.execute("UPDATE jobs SET not_before = NULL")
    await finished(world)


@pytest.mark.slow
async def test_a_renamed_organisation_goes_on_and_who_takes_its_login_does_not(world: World) -> None:
    world.submit(1)
    await finished(world)
    world.github.rename_account("acme", "acme-incorporated")
    world.github.add_organization("acme", "app")
    usurper = world.github.submit("acme/app", labels=(LABEL,), duration=30)
    world.submitted.append(world.github.submit("acme-incorporated/app", labels=(LABEL,), duration=30))
    await world.until("the renamed one's job is over", lambda: world.submitted[-1].status == "completed", within=60)
    assert world.github.job(usurper.id).status == "queued"


@pytest.mark.slow
@pytest.mark.parametrize("change_of_name", ["repository", "account"])
async def test_a_job_whose_end_was_lost_is_found_under_the_new_name_of_its_repository(
    world: World, change_of_name: str
) -> None:
    world.github.inject(Fault(kind=FaultKind.UNSENT, operations=("completed",)))
    (job,) = world.submit(1, seconds=120)
    await world.until("it runs", lambda: world.github.job(job.id).status == "in_progress")
    if change_of_name == "repository":
        world.github.rename_repository("acme/app", "ios")
    else:
        world.github.rename_account("acme", "acme-incorporated")
    await finished(world)
    row = await world.ledger.jobs.get(job.id)
    assert row is not None
    assert row.repository == "acme/app", "the ledger has the name of before, under which GitHub sends us on"
    assert (row.status, row.conclusion) == ("completed", "success")
