"""The dispatch process lives through a leak and a burst, and its role fits it: nothing missing, nothing wider."""

from integration.roles.recording import Right
from integration.runners.jobs.world import World

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.processes.roles import dispatch_roles
from paddock.simulator.pods import Hang

EXPLAINED = {
    # Used when a cache lacks what a request needs, and when a Pod cannot end because its Node is gone.
    Right("default", "tuist.dev", "runnerpools", "get"),
    Right("default", "", "serviceaccounts", "get"),
    Right("", "", "nodes", "get"),
    Right("", "", "nodes", "list"),
    # An event that repeats is counted on the first one.
    Right("default", "", "events", "patch"),
    # The account goes with its Pod by garbage collection; where that is slow, healing deletes it.
    Right("default", "", "serviceaccounts", "delete"),
}


async def test_dispatch_and_healing_need_every_right_of_their_role_and_no_other(server: EmbeddedPostgres) -> None:
    async with World(server.dsn, "jobs_role", macs=3).living() as world:
        page = world.read_page()
        world.pods.runner_faults.next.append(Hang.HANGS_AFTER_JOB)
        world.submit(4)
        await world.until("every job is over in every ledger", world.all_done, within=60.0)
        await world.nothing_is_left()
        page.cancel()
        roles = dispatch_roles("default")
        assert world.asked_by_dispatch.not_granted(roles) == []
        assert world.asked_by_dispatch.never_asked(roles) <= EXPLAINED
