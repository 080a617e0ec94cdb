"""The life of an installation, as people live it at GitHub: what the ledger and `why` say at each step, and that jobs go on."""

import itertools
from collections.abc import AsyncIterator

import pytest_asyncio
from integration.runners.jobs.world import LABEL, World
from integration.runners.scale_sets.test_jobs_from_the_queue import ScaleSetWorld

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.simulator.github import SimulatedJob

_schemas = itertools.count()


@pytest_asyncio.fixture
async def world(server: EmbeddedPostgres) -> AsyncIterator[World]:
    async with World(server.dsn, f"installation_{next(_schemas)}", macs=2).living() as world:
        yield world


async def says(world: World, job: SimulatedJob, reason: str, words: str) -> None:
    async def said() -> bool:
        waiting = await world.ledger.overview.waiting(job.id)
        return waiting is not None and waiting.reason.endswith(reason) and words in waiting.why

    await world.until(f"job {job.id} says {words!r}", said)
    assert world.github.job(job.id).status == "queued"


async def succeeds(world: World, job: SimulatedJob) -> None:
    """It is over within seconds; a rest that nobody ends takes a minute and more."""
    await world.until(f"job {job.id} is over", lambda: world.github.job(job.id).status == "completed", within=30.0)
    assert world.github.job(job.id).conclusion == "success"


async def installed_as(world: World) -> tuple[str, int | None]:
    account = await world.ledger.accounts.get(world.account.id)
    assert account is not None
    return account.login, account.installation_id


async def test_install_suspend_permit_remove_add_rename_and_uninstall(world: World) -> None:
    first = world.account.installation_id

    async def installation_is(number: int | None, login: str = "acme") -> None:
        async def noted() -> bool:
            return await installed_as(world) == (login, number)

        await world.until(f"installation {number} of {login} is noted", noted)

    # Uninstalled and installed again, which is another installation: what waits meanwhile says so, and goes.
    world.github.uninstall("acme")
    await installation_is(None)
    world.github.install("acme")
    await installation_is(world.account.installation_id)
    assert world.account.installation_id != first
    (job,) = world.submit(1)
    await succeeds(world, job)

    # Suspended with a job in the line, and lifted.
    world.github.accept_permissions("acme", organization_self_hosted_runners="none", administration="none")
    (job,) = world.submit(1)
    await says(world, job, "resting", "Self-hosted runners: write")
    world.github.suspend("acme")
    await installation_is(None)
    await says(world, job, "resting", "lift its suspension")
    world.github.suspend("acme", suspended=False)
    await installation_is(world.account.installation_id)
    await says(world, job, "resting", "Self-hosted runners: write")

    # The permission is accepted.
    world.github.accept_permissions("acme", organization_self_hosted_runners="write", administration="write")
    await succeeds(world, job)

    # A repository is taken from the App while its job waits, and given again.
    world.github.accept_permissions("acme", organization_self_hosted_runners="none", administration="none")
    (job,) = world.submit(1)
    await says(world, job, "resting", "Self-hosted runners: write")
    world.github.take_repository("acme/app")
    await says(world, job, "repository_resting", "add the repository to the App's installation again")
    world.github.accept_permissions("acme", organization_self_hosted_runners="write", administration="write")
    world.github.give_repository("acme/app")
    await succeeds(world, job)

    # Renamed: the same account, with its limits and its line on the list.
    world.github.rename_account("acme", "acme-incorporated")
    await installation_is(world.account.installation_id, "acme-incorporated")
    renamed = world.github.submit("acme-incorporated/app", labels=(LABEL,), duration=30)
    world.submitted.append(renamed)
    await succeeds(world, renamed)
    await world.until("every job is over in every ledger", world.all_done)
    world.github.uninstall("acme-incorporated")
    await installation_is(None, "acme-incorporated")
    assert await world.ledger.allow_list.standing(world.account.id) == "allowed"
    await world.nothing_is_left()


async def test_a_scale_set_that_was_refused_is_tried_again_as_soon_as_the_permission_is_accepted(
    server: EmbeddedPostgres,
) -> None:
    world = ScaleSetWorld(server.dsn, f"installation_{next(_schemas)}", macs=1)
    world.told = True
    world.account.permissions |= {"organization_self_hosted_runners": "none"}
    async with world.living():

        async def is_in(state: str) -> bool:
            return [source.state for source in await world.ledger.scale_sets.sources()] == [state]

        await world.until("the set is refused", lambda: is_in("Refused"))
        world.github.accept_permissions("acme", organization_self_hosted_runners="write")
        await world.until("it is listened to, long before five minutes are over", lambda: is_in("Listening"))
        world.submit(1)
        await world.until("its job is over", world.all_done)
