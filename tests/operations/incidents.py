"""What goes wrong with a fleet, one incident each, beside the true cause: the thing of which `paddock status` should speak first.

Each fault is one that the simulator can cause: in the cloud, on a Mac, in its Tart, at GitHub, in our own processes, or by a person's
hand. An incident strikes a fleet that works; somebody looks `after` so many seconds. Whoever strikes says what the true cause is, by
kind and name, or by kind alone where any one of them will do.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from operations.macs import Mac
from operations.world import FLEET, LABEL, POOL, OperationsWorld

from paddock.embedded.store.interface import Key
from paddock.hosts.api import MacFleet
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node
from paddock.runners.api import RunnerPool
from paddock.simulator.cloud.faults import Fault as CloudFault
from paddock.simulator.cloud.faults import FaultKind as CloudFaultKind
from paddock.simulator.github import SimulatedJob
from paddock.simulator.github.faults import Fault as GitHubFault
from paddock.simulator.github.faults import FaultKind as GitHubFaultKind
from paddock.simulator.pods import Hang
from paddock.simulator.tart import SimulatedRunner
from paddock.simulator.tart.guest import Mishap

__all__ = ["INCIDENTS", "Incident", "Stage"]

MINUTE = 60.0
_KEEPS_LOOKING = 5.0


class Stage:
    """A fleet at work. `wanted` jobs are kept open: a job that ends is followed by another."""

    def __init__(self, world: OperationsWorld) -> None:
        self.world = world
        self.wanted = 1
        self.seconds = 1500.0
        self.labels: tuple[str, ...] = (LABEL,)
        self.jobs: list[SimulatedJob] = []
        self.macs: list[Mac] = []
        """The Macs as they are when it strikes, the idlest first."""

    async def run(self) -> None:
        while True:
            open_jobs = sum(job.status != "completed" for job in self.jobs)
            for _ in range(self.wanted - open_jobs):
                self.jobs.append(
                    self.world.github.submit(
                        "acme/app", labels=self.labels, duration=self.seconds, name=f"job {len(self.jobs)}"
                    )
                )
            await self.world.clock.sleep(_KEEPS_LOOKING)

    async def begin(self, macs: int, busy: int) -> None:
        """Every place has a Pod, and so many of them run a job."""
        here = self.world.macs.here
        await self.until("every place is taken", lambda: sum(len(m.tart.running()) for m in here.values()) >= 2 * macs)
        self.wanted = busy
        await self.pause(90)
        self.macs = sorted(here.values(), key=lambda mac: (len(mac.jobs), mac.machine.metadata.name))

    def machines(self) -> set[str]:
        return {machine.metadata.name for machine in self.world.store.present(Machine)}

    async def pause(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        await self.world.eventually(what, holds)

    async def pool(self, **spec: Any) -> None:
        await self.world.api.merge_patch(RunnerPool, POOL, {"spec": spec}, namespace="default")

    async def scale(self, replicas: int) -> None:
        await self.world.api.merge_patch(MacFleet, FLEET, {"spec": {"replicas": replicas}}, namespace="default")

    def cloud(self, kind: CloudFaultKind, *operations: str, server_id: str = "") -> None:
        self.world.cloud.inject(CloudFault(kind=kind, operations=operations, times=None, server_id=server_id))

    def github(self, kind: GitHubFaultKind, *operations: str) -> None:
        self.world.github.inject(GitHubFault(kind=kind, operations=operations, times=None))


_Strike = Callable[[Stage], Coroutine[Any, Any, str]]


@dataclass(frozen=True)
class Incident:
    """`spare` is how many Macs wait in the pool of hosts, `jobs` how many jobs people want to run from the strike on."""

    strike: _Strike
    after: float = 11 * MINUTE
    spare: int = 0
    jobs: int = 1
    busy: int = 1
    """How many of them run when it strikes."""
    seconds: float = 1500.0
    """How long each of them takes."""
    macs: int = 2
    missed: bool = False
    """Whether `status` does not name the cause first as yet."""
    second: str = ""
    """What is also wrong, has nothing to do with it, and must be a root of its own."""


# Machines and Macs


async def force_delete(stage: Stage) -> str:
    mac = stage.macs[0]
    name = mac.machine.metadata.name
    store = stage.world.store
    key = Key(f"{Machine.RESOURCE.plural}.{Machine.RESOURCE.group}", "default", name)
    found = await store.get(key)
    assert found is not None
    await store.delete(key, found.revision)
    return f"host {mac.server_id}"


async def power_off(stage: Stage, which: int = 0) -> str:
    mac = stage.macs[which]
    stage.world.cloud.set_power(mac.server_id, on=False)
    return f"machine {mac.machine.metadata.name}"


async def agent_ends(stage: Stage, which: int = 0) -> str:
    """The agent ends, launchd does not bring it back, and neither can we: nothing answers there."""
    mac = stage.macs[which]
    assert mac.agent is not None
    stage.world.fakes.silent.add(mac.server_id)
    await mac.agent.stop()
    return f"machine {mac.machine.metadata.name}"


async def delete_node(stage: Stage) -> str:
    """Somebody tidied up, and the agent is not there to register again."""
    cause = await agent_ends(stage)
    await stage.world.api.delete(Node, cause.split()[1])
    return cause


async def _given_back(stage: Stage) -> tuple[str, str]:
    """The machine and the server of a Mac that is given back, and claimed again after its wipe."""
    mac = stage.macs[0]
    stage.world.cloud.behaviour.reinstall = (120.0, 120.0)
    before = stage.machines()
    await stage.world.api.delete(Machine, mac.machine.metadata.name, "default")
    await stage.until("another machine is made", lambda: bool(stage.machines() - before))
    return next(iter(stage.machines() - before)), mac.server_id


async def lock_account(stage: Stage) -> str:
    name, server = await _given_back(stage)
    stage.world.fakes.broken.add(server)
    return f"machine {name}"


async def wedge_sshd(stage: Stage) -> str:
    name, server = await _given_back(stage)
    stage.world.fakes.silent.add(server)
    return f"machine {name}"


async def seal_password(stage: Stage) -> str:
    name, server = await _given_back(stage)
    stage.world.cloud.behaviour.sealed_after_reinstall = 7200.0
    stage.world.cloud.seal(server, 7200.0)
    return f"machine {name}"


async def no_session(stage: Stage) -> str:
    mac = stage.macs[0]
    mac.host.no_session = "no user is logged in at the console"
    return f"machine {mac.machine.metadata.name}"


async def disk_fills(stage: Stage) -> str:
    mac = stage.macs[0]
    mac.host.disk_free = 10**9
    mac.disk.full = True
    return f"machine {mac.machine.metadata.name}"


async def server_deleted(stage: Stage) -> str:
    mac = stage.macs[0]
    stage.world.cloud.delete_host(mac.server_id)
    return f"machine {mac.machine.metadata.name}"


async def server_locked(stage: Stage) -> str:
    """The cloud locks a server, and it goes dark."""
    mac = stage.macs[0]
    stage.world.cloud.set_status(mac.server_id, "locked")
    stage.world.cloud.set_power(mac.server_id, on=False)
    return f"machine {mac.machine.metadata.name}"


# The cloud


async def cloud_answers_500(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.SERVER_ERROR)
    return "paddock"


async def cloud_limits(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.RATE_LIMITED)
    return "paddock"


async def cloud_key_expired(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.UNAUTHENTICATED)
    return "paddock"


async def cloud_forbids(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.FORBIDDEN)
    return "paddock"


async def cloud_lost(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.LOST)
    return "paddock"


async def cloud_html(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.NOT_JSON)
    return "paddock"


async def cloud_short_list(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.SHORT_LIST, "list")
    return "paddock"


async def cloud_empty_list(stage: Stage) -> str:
    stage.cloud(CloudFaultKind.EMPTY_LIST, "list")
    return "paddock"


async def wipe_refused(stage: Stage) -> str:
    _, server = await _given_back_at_once(stage, CloudFaultKind.PRECONDITION)
    return f"host {server}"


async def wipe_lasts(stage: Stage) -> str:
    stage.world.cloud.behaviour.reinstall = (9000.0, 9000.0)
    mac = stage.macs[0]
    await stage.world.api.delete(Machine, mac.machine.metadata.name, "default")
    return f"host {mac.server_id}"


async def _given_back_at_once(stage: Stage, kind: CloudFaultKind) -> tuple[str, str]:
    mac = stage.macs[0]
    stage.cloud(kind, "reinstall", server_id=mac.server_id)
    await stage.world.api.delete(Machine, mac.machine.metadata.name, "default")
    return mac.machine.metadata.name, mac.server_id


async def install_fails(stage: Stage) -> str:
    mac = stage.macs[0]
    await stage.world.api.delete(Machine, mac.machine.metadata.name, "default")
    await stage.until("it is being wiped", lambda: stage.world.cloud.host(mac.server_id).activity == "reinstalling")
    stage.world.cloud.fail_install(mac.server_id)
    return f"host {mac.server_id}"


async def too_few_hosts(stage: Stage) -> str:
    before = stage.machines()
    await stage.scale(3)
    await stage.until("the machine is made", lambda: len(stage.machines()) == 3)
    return f"machine {next(iter(stage.machines() - before))}"


# Tart


async def image_missing(stage: Stage) -> str:
    for mac in stage.macs:
        mac.tart.pull_problems["images.test/macos:typo"] = ["not found"] * 1000
    await stage.pool(image="images.test/macos:typo")
    return "pod"


async def vms_never_boot(stage: Stage) -> str:
    for mac in stage.macs:
        mac.tart.runner_faults = [Mishap.NEVER_BOOTS] * 1000
    return f"pool {POOL}"


async def vms_die(stage: Stage) -> str:
    for mac in stage.macs:
        mac.tart.runner_faults = [Mishap.DIES_AT_ONCE] * 1000
    return f"pool {POOL}"


async def vms_never_ready(stage: Stage) -> str:
    for mac in stage.macs:
        mac.tart.runner_faults = [Mishap.NEVER_READY] * 1000
    return f"pool {POOL}"


# Runners


def _runners(kind: Hang) -> _Strike:
    async def strike(stage: Stage) -> str:
        for mac in stage.macs:
            assert isinstance(mac.tart._runner, SimulatedRunner)
            mac.tart._runner.runner_faults.next = [kind] * 1000
        return "pod"

    return strike


# Our processes


async def dispatch_ends(stage: Stage) -> str:
    await stage.world.dispatch.stop()
    return "dispatch"


async def operator_ends(stage: Stage) -> str:
    await stage.world.operator.stop()
    return f"pool {POOL}"


# GitHub


def _github(kind: GitHubFaultKind, *operations: str) -> _Strike:
    async def strike(stage: Stage) -> str:
        stage.github(kind, *operations)
        return "github"

    return strike


async def suspended(stage: Stage) -> str:
    stage.world.github.suspend("acme")
    return "github"


# People


async def other_labels(stage: Stage) -> str:
    stage.labels = (LABEL, "gpu")
    return "queue"


async def cordon_all(stage: Stage) -> str:
    for node in stage.world.store.present(Node):
        await stage.world.api.merge_patch(Node, node.metadata.name, {"spec": {"unschedulable": True}})
    return f"pool {POOL}"


async def pool_of_none(stage: Stage) -> str:
    await stage.pool(replicas=0)
    return f"pool {POOL}"


async def pool_too_large(stage: Stage) -> str:
    await stage.pool(replicas=9)
    return f"pool {POOL}"


async def wrong_fleet(stage: Stage) -> str:
    await stage.world.create_pool("lost", "lost-macos", replicas=1)
    await stage.world.api.merge_patch(RunnerPool, "lost", {"spec": {"fleetSelector": "nobody"}}, namespace="default")
    return "pool lost"


def both(first: _Strike, *others: _Strike) -> _Strike:
    """Several at once; the first one is what should be told first."""

    async def strike(stage: Stage) -> str:
        cause = await first(stage)
        for other in others:
            await other(stage)
        return cause

    return strike


async def second_mac_off(stage: Stage) -> str:
    return await power_off(stage, 1)


async def agent_of_second_ends(stage: Stage) -> str:
    return await agent_ends(stage, 1)


INCIDENTS: dict[str, Incident] = {
    "a machine is force-deleted and its successor finds no host": Incident(force_delete, jobs=4),
    "a machine is force-deleted and a spare host replaces it": Incident(force_delete, spare=1),
    "a Node is deleted and its agent is gone": Incident(delete_node, jobs=4),
    "a Mac's account is locked": Incident(lock_account, jobs=4),
    "a Mac's sshd hangs": Incident(wedge_sshd, jobs=4),
    "a Mac's password is sealed": Incident(seal_password, jobs=4),
    "a Mac loses its power under its jobs": Incident(power_off, after=4 * MINUTE, jobs=4, busy=4),
    "a Mac has no power, jobs wait": Incident(power_off, jobs=6),
    "an agent ends under its jobs": Incident(agent_ends, jobs=4, busy=4),
    "nobody is logged in at a Mac": Incident(no_session, jobs=4),
    "a Mac's disk is full": Incident(disk_fills, jobs=4),
    "a server is deleted in the console": Incident(server_deleted, jobs=4),
    "a server is locked by the cloud": Incident(server_locked, jobs=4),
    "the cloud answers 500": Incident(cloud_answers_500),
    "the cloud limits every call": Incident(cloud_limits),
    "the cloud's key has expired": Incident(cloud_key_expired),
    "the cloud's key may do nothing": Incident(cloud_forbids),
    "the cloud cannot be reached": Incident(cloud_lost),
    "the cloud answers HTML": Incident(cloud_html),
    "the cloud's lists are short": Incident(cloud_short_list),
    "the cloud's lists are empty": Incident(cloud_empty_list),
    "no host is free": Incident(too_few_hosts, after=5 * MINUTE),
    "an image cannot be pulled": Incident(image_missing, jobs=4),
    "VMs never boot": Incident(vms_never_boot, jobs=4, seconds=60.0),
    "VMs die at once": Incident(vms_die, jobs=4, seconds=60.0),
    "VMs never get ready": Incident(vms_never_ready, jobs=4, seconds=60.0),
    "runners never register": Incident(_runners(Hang.NEVER_REGISTERS), jobs=4),
    "runners hang after their jobs": Incident(_runners(Hang.HANGS_AFTER_JOB), jobs=4, seconds=60.0),
    "runners die in their jobs": Incident(_runners(Hang.DIES_IN_JOB), jobs=4),
    "runners stand still in their jobs": Incident(_runners(Hang.STANDS_STILL), jobs=4),
    "dispatch has ended": Incident(dispatch_ends, after=5 * MINUTE),
    "the operator has ended": Incident(operator_ends, jobs=4, seconds=60.0),
    "GitHub makes no runners": Incident(_github(GitHubFaultKind.SERVER_ERROR, "mint"), jobs=4),
    "GitHub forbids runners": Incident(_github(GitHubFaultKind.FORBIDDEN, "mint"), jobs=4),
    "GitHub limits every call": Incident(_github(GitHubFaultKind.SECONDARY_LIMIT), jobs=4),
    "GitHub takes our key no more": Incident(_github(GitHubFaultKind.UNAUTHENTICATED), jobs=4),
    "an installation is suspended": Incident(suspended, jobs=4),
    "jobs want labels that no pool offers": Incident(other_labels, jobs=3),
    "every Mac is cordoned": Incident(cordon_all, jobs=2),
    "a pool is set to no Pods": Incident(pool_of_none, jobs=2),
    "a pool is larger than its fleet": Incident(pool_too_large, after=10 * MINUTE),
    "a pool's fleet does not exist": Incident(wrong_fleet, after=10 * MINUTE),
    "the cloud is away while a Mac has no power": Incident(
        both(power_off, cloud_answers_500), jobs=4, second="paddock"
    ),
    "dispatch has ended while a Mac has no power": Incident(both(dispatch_ends, power_off), jobs=4, second="machine"),
    "a Mac has no power while another is orphaned": Incident(
        both(second_mac_off, force_delete), spare=1, jobs=4, second="host"
    ),
    "jobs want other labels while a Mac has no power": Incident(
        both(other_labels, power_off), jobs=3, second="machine"
    ),
    "GitHub makes no runners while a Mac has no power": Incident(
        both(_github(GitHubFaultKind.SERVER_ERROR, "mint"), power_off), jobs=3, second="machine"
    ),
    "a pool is set to no Pods while a Mac has no power": Incident(
        both(pool_of_none, power_off), jobs=2, second="machine"
    ),
    "dispatch and the cloud are away and a Mac has no power": Incident(
        both(dispatch_ends, cloud_lost, power_off), jobs=4, second="paddock"
    ),
    "an orphan, a dead agent and a pool without its fleet": Incident(
        both(agent_of_second_ends, force_delete, wrong_fleet), spare=1, jobs=4, second="host"
    ),
}
