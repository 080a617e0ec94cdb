"""What a new simulation has from its first minute: a fleet, a pool of runners and limits, so that there is something to see."""

from collections.abc import Iterable
from contextlib import suppress

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import Autoscaling, JobSource, RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import Ledger
from paddock.simulator.world.messages import WorldAccount

__all__ = ["FLEET", "SERVER_TYPE", "first_fleet", "first_limits", "first_pool"]

FLEET = "mac-fleet"
SERVER_TYPE = "M4-M"


async def first_fleet(client: Client, namespace: str, hosts: int, zone: str) -> None:
    """A fleet as large as the first pool of hosts, so that there is something to see from the first minute."""
    fleet = MacFleet(
        metadata=ObjectMeta(name=FLEET, namespace=namespace),
        spec=MacFleetSpec(replicas=hosts, template=MacFleetTemplate(spec=MachineSpec(type=SERVER_TYPE, zone=zone))),
    )
    with suppress(AlreadyExistsError):
        await client.create(fleet)


async def first_pool(client: Client, namespace: str, hosts: int, job_source: JobSource) -> None:
    """A pool of warm runners on the first fleet, which grows with the jobs."""
    pool = RunnerPool(
        metadata=ObjectMeta(name="macos", namespace=namespace),
        spec=RunnerPoolSpec(
            image="registry.example/macos-runner:26.1",
            fleet_selector=FLEET,
            dispatch_label="tuist-macos",
            job_source=job_source,
            runner_labels=("self-hosted", "macOS", "ARM64"),
            autoscaling=Autoscaling(
                enabled=True, min_warm_pool_floor=2, max_replicas=hosts, scale_down_cooldown_seconds=30
            ),
        ),
    )
    with suppress(AlreadyExistsError):
        await client.create(pool)


async def first_limits(ledger: Ledger, accounts: Iterable[WorldAccount], hosts: int) -> None:
    """Enrol and allow the organisations, with limits that differ, so that one can be seen waiting for its own."""
    shares = {"acme": 0.6, "bolt": 0.4}
    for account in accounts:
        known = await ledger.accounts.of_login(account.login)
        await ledger.accounts.enrol(account.id, account.login, account.installation_id)
        if not await ledger.allow_list.standing(account.id):  # what a person decided since stays
            await ledger.allow_list.allow(account.id, account.login, by="simulation", why="it was made for this")
        if known is None and account.login in shares:
            macs = max(2, round(shares[account.login] * hosts))
            why = "the first limits of the simulation"
            await ledger.limits.set(
                account.id, "macos", vcpus=6 * macs, memory_mb=14_336 * macs, by="simulation", why=why
            )
