"""What people do to a fleet that works, each as they do it: through the Kubernetes API, by a signal, or by a change in the ledger.

An operation returns when it is done, as its person would say. What it may cost is part of it: jobs (none, unless a person ends one by
hand), and how long a place on a good Mac may stay empty.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from operations.judges import Watch, kills
from operations.load import Load
from operations.macs import Mac
from operations.world import FLEET, POOL, OperationsWorld

from paddock.hosts.api import MacFleet
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.disruption import FORCE
from paddock.kube.builtin import Event, Node, Pod
from paddock.runners.api import OWNER_LABEL, POOL_LABEL, RunnerPool
from paddock.simulator.github import SimulatedJob

__all__ = ["CHAPTERS", "OPERATIONS", "Operation", "Scene"]


@dataclass
class Scene:
    """Where operations are done. `rng` chooses the Mac, the Pod, the moment."""

    world: OperationsWorld
    load: Load
    watch: Watch
    rng: Any

    def busy_mac(self) -> Mac:
        """A Mac at work, drawn from those that can be used."""
        good = self.watch.good_macs()
        macs = [mac for mac in self.world.macs.here.values() if mac.machine.metadata.name in good]
        most = max(len(mac.jobs) for mac in macs)
        return self.rng.choice(sorted((mac for mac in macs if len(mac.jobs) == most), key=lambda mac: mac.server_id))

    async def cordon(self, node: str, *, on: bool = True) -> None:
        await self.world.api.merge_patch(Node, node, {"spec": {"unschedulable": on or None}})

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.world.store.present(Pod) if pod.spec.node_name == node]

    async def scale(self, replicas: int) -> None:
        await self.world.api.merge_patch(MacFleet, FLEET, {"spec": {"replicas": replicas}}, namespace="default")

    async def places(self, replicas: int) -> None:
        """The pool follows the fleet, as an autoscaler or the next `helm upgrade` has it."""
        await self.world.api.merge_patch(RunnerPool, POOL, {"spec": {"replicas": replicas}}, namespace="default")

    async def until(self, what: str, holds: Callable[[], bool], within: float = 3600.0) -> float:
        return await self.world.eventually(what, holds, within)

    async def pause(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    def machines(self) -> set[str]:
        return {machine.metadata.name for machine in self.world.store.present(Machine)}

    def jobs_run(self, count: int) -> bool:
        return sum(len(mac.jobs) for mac in self.world.macs.here.values()) >= count


@dataclass(frozen=True)
class Operation:
    """`may_lose` is how many jobs a person ends by it, `says` what `paddock status` names meanwhile ("" where nothing has to be
    said: it is over before it would be a problem), `empty_for` how long a place on a good Mac may stay empty beside a job that waits.
    """

    name: str
    do: Callable[[Scene], Coroutine[Any, Any, None]]
    may_lose: int = 0
    says: str = ""
    empty_for: float = 240.0
    together: bool = False
    """Whether it can be done at any moment, whatever else was done before."""


async def cordon_and_uncordon(scene: Scene) -> None:
    node = scene.busy_mac().machine.metadata.name
    await scene.cordon(node)
    await scene.until("the Mac has no Pod", lambda: not scene.pods_on(node))
    await scene.cordon(node, on=False)
    await scene.until("the Mac is full again", lambda: scene.watch.good_macs().get(node) == 2)


async def cordon_by_mistake(scene: Scene) -> None:
    node = scene.busy_mac().machine.metadata.name
    await scene.cordon(node)
    await scene.pause(20)
    await scene.cordon(node, on=False)


async def drain(scene: Scene) -> None:
    """`kubectl drain`: cordon, then evict each Pod; a refusal is asked again every five seconds."""
    node = scene.busy_mac().machine.metadata.name
    await scene.cordon(node)
    while pods := scene.pods_on(node):
        for pod in pods:
            assert await scene.world.evict(pod.metadata.name) in (201, 404, 429)
        await scene.pause(5)
    await scene.cordon(node, on=False)
    await scene.until("the Mac is full again", lambda: scene.watch.good_macs().get(node) == 2)


async def _delete_pod(scene: Scene, *, busy: bool) -> None:
    """A busy one is of a job that has just begun: others may end within the Pod's grace, and then nothing is lost by luck."""

    def long_from_its_end(job: SimulatedJob) -> bool:
        if job.started_at is None:
            return False
        return job.duration - (scene.world.clock.now() - job.started_at).total_seconds() > 300

    def found() -> list[Pod]:
        return [
            pod
            for pod in scene.world.store.present(Pod)
            if (OWNER_LABEL in pod.metadata.labels) == busy
            and pod.metadata.deletion_timestamp is None
            and pod.status.phase == ("Running" if busy else pod.status.phase)
            and (
                not busy
                or any(
                    pod.metadata.name == job.runner_name or pod.metadata.name in job.runner_name
                    for job in scene.load.running()
                    if long_from_its_end(job)
                )
            )
        ]

    await scene.until("there is such a Pod", lambda: bool(found()))
    pod = scene.rng.choice(sorted(found(), key=lambda pod: pod.metadata.name))
    await scene.world.api.delete(Pod, pod.metadata.name, "default")
    name = pod.metadata.name
    await scene.until("it is gone", lambda: all(p.metadata.name != name for p in scene.world.store.present(Pod)))


async def delete_idle_pod(scene: Scene) -> None:
    await _delete_pod(scene, busy=False)


async def delete_busy_pod(scene: Scene) -> None:
    await _delete_pod(scene, busy=True)


async def delete_node(scene: Scene) -> None:
    node = scene.busy_mac().machine.metadata.name
    await scene.world.api.delete(Node, node)
    await scene.until("the Mac has registered again", lambda: node in scene.watch.good_macs())


async def delete_machine(scene: Scene) -> None:
    machine = scene.busy_mac().machine.metadata.name
    await scene.world.api.delete(Machine, machine, "default")
    await scene.until("the machine is gone", lambda: machine not in scene.machines())


async def force_machine(scene: Scene) -> None:
    """`paddock release NAME --force-kill-job`: a person has seen which jobs end, and does not wait for them."""
    machine = scene.busy_mac().machine.metadata.name
    jobs = {pod.metadata.name for pod in scene.pods_on(machine) if OWNER_LABEL in pod.metadata.labels}
    scene.watch.given_up.add(machine)
    force = {"metadata": {"annotations": {FORCE: "true"}}}
    before = kills(scene.world, ["force"])
    await scene.world.api.merge_patch(Machine, machine, force, "default")
    await scene.world.api.delete(Machine, machine, "default")
    took = await scene.until("the machine is gone", lambda: machine not in scene.machines())
    assert took < 120, "nobody is waited for"
    named = [event.message for event in scene.world.store.present(Event) if event.reason == "JobsKilled"]
    counted = kills(scene.world, ["force"]) - before
    assert counted == sum(name in named[-1] for name in jobs) > 0, (counted, jobs, named)
    await scene.until(
        "dispatch has them", lambda: not any(host.spec.ended_jobs for host in scene.world.store.present(Host))
    )
    assert scene.world.service is not None
    rows = [row for row in await scene.world.service.ledger.kills.newest() if row.machine == machine]
    assert len(rows) == counted, "what a process counts is in the ledger, where every other finds it"


async def scale_up(scene: Scene) -> None:
    scene.world.wanted += 1
    await scene.scale(scene.world.wanted)
    await scene.places(2 * scene.world.wanted)
    await scene.until("the Mac works", lambda: scene.jobs_run(2 * scene.world.wanted))


async def scale_down(scene: Scene) -> None:
    scene.world.wanted -= 1
    await scene.scale(scene.world.wanted)
    await scene.places(2 * scene.world.wanted)
    await scene.until("the machine is gone", lambda: len(scene.machines()) == scene.world.wanted)


async def recreate_fleet(scene: Scene) -> None:
    before = scene.machines()
    await scene.world.api.delete(MacFleet, FLEET, "default")
    await scene.until("the fleet is gone", lambda: not scene.world.store.present(MacFleet))
    await scene.until("its machines are gone", lambda: not before & scene.machines())
    await scene.world.create_fleet(scene.world.wanted)


async def typo_up(scene: Scene) -> None:
    await scene.scale(scene.world.wanted * 10)
    await scene.pause(60)
    await scene.scale(scene.world.wanted)


async def typo_down(scene: Scene) -> None:
    await scene.scale(1)
    await scene.pause(60)
    await scene.scale(scene.world.wanted)


async def roll_image(scene: Scene) -> None:
    current = next(pool for pool in scene.world.store.present(RunnerPool) if pool.metadata.name == POOL).spec.image
    image = f"images.test/macos:{int(current.rpartition(':')[2]) + 1}"
    await scene.world.api.merge_patch(RunnerPool, POOL, {"spec": {"image": image}}, namespace="default")

    def rolled() -> bool:
        pods = [p for p in scene.world.store.present(Pod) if p.metadata.labels.get(POOL_LABEL) == POOL]
        return all(c.image == image for pod in pods for c in pod.spec.containers)

    await scene.until("every Pod has the new image", rolled, within=7200)


async def add_pool(scene: Scene) -> None:
    await scene.places(2 * scene.world.wanted - 1)
    await scene.world.create_pool("other", "other-macos", replicas=1)
    scene.load.labels.append("other-macos")
    await scene.until("it runs a job", lambda: any("other-macos" in job.labels for job in scene.load.running()))


async def rename_pool(scene: Scene) -> None:
    """There is no renaming in Kubernetes: the old one is deleted, and another made with its label at once."""
    await scene.world.api.delete(RunnerPool, "other", "default")
    await scene.world.create_pool("renamed", "other-macos", replicas=1)
    await scene.until("the old one is gone", lambda: not _pool(scene, "other"))
    await scene.until("the new one runs a job", lambda: _runs(scene, "renamed"))


async def replace_pool(scene: Scene) -> None:
    """The label is nobody's for a while: jobs that come meanwhile are found again once it is somebody's."""
    await scene.world.api.delete(RunnerPool, "renamed", "default")
    await scene.until("the old one is gone", lambda: not _pool(scene, "renamed"))
    scene.load.submit(60.0, "other-macos")
    await scene.pause(180)
    await scene.world.create_pool("later", "other-macos", replicas=1)
    await scene.until("the new one runs a job", lambda: _runs(scene, "later"))


async def delete_pool(scene: Scene) -> None:
    scene.load.labels.remove("other-macos")
    await scene.until("its jobs have ended", lambda: not any("other-macos" in job.labels for job in scene.load.open()))
    await scene.world.api.delete(RunnerPool, "later", "default")
    await scene.until("it is gone", lambda: not _pool(scene, "later"))
    await scene.places(2 * scene.world.wanted)


def _pool(scene: Scene, name: str) -> bool:
    return any(pool.metadata.name == name for pool in scene.world.store.present(RunnerPool))


def _runs(scene: Scene, pool: str) -> bool:
    return any(job.runner_name.startswith(f"{pool}-") for job in scene.load.running())


async def change_limit(scene: Scene) -> None:
    """Too low for what runs, and back after five minutes."""
    world = scene.world
    await world.ledger.limits.set(world.account.id, "macos", vcpus=4, memory_mb=6144, by="test", why="too low")
    await scene.pause(300)
    await world.ledger.limits.set(
        world.account.id, "macos", vcpus=4000, memory_mb=14_336_000, by="test", why="as before"
    )
    await world.ledger.notifications.hint(POOL)


async def restart_operator(scene: Scene) -> None:
    await scene.world.operator.stop()
    scene.world.operator.start()
    await scene.pause(30)


async def restart_api(scene: Scene) -> None:
    """The API server of `paddock up`, or one that is upgraded: for some seconds there is none, and every watch breaks."""
    await scene.world.api_server.stop()
    await scene.pause(10)
    scene.world.api_server.start()
    await scene.pause(30)


async def kill_api(scene: Scene) -> None:
    scene.world.api_server.crash()
    await scene.pause(60)


async def restart_dispatch(scene: Scene) -> None:
    await scene.world.dispatch.stop()
    scene.world.dispatch.start()
    await scene.pause(30)


async def kill_operator(scene: Scene) -> None:
    scene.world.operator.crash()
    await scene.pause(60)


async def kill_dispatch(scene: Scene) -> None:
    scene.world.dispatch.crash()
    await scene.pause(60)


async def kill_agents(scene: Scene) -> None:
    for server in list(scene.world.macs.here):
        scene.world.macs.kill_agent(server)
    await scene.pause(60)


CHAPTERS: dict[str, tuple[Operation, ...]] = {
    "nodes and Pods": (
        Operation("`kubectl cordon NODE`, taken back after 20 s", cordon_by_mistake, together=True),
        Operation(
            "`kubectl cordon NODE`, and `uncordon` when it is empty",
            cordon_and_uncordon,
            says="is cordoned",
            together=True,
        ),
        Operation("`kubectl drain NODE`, then `uncordon`", drain, says="Macs that drain", together=True),
        Operation("`kubectl delete pod`, a runner that waits", delete_idle_pod, together=True),
        Operation("`kubectl delete pod`, a runner at work", delete_busy_pod, may_lose=1, together=True),
        Operation("`kubectl delete node`", delete_node, together=True),
    ),
    "machines": (
        Operation("`kubectl delete samm`", delete_machine, says="being deleted", together=True),
        Operation("`paddock release NAME --force-kill-job`, under jobs", force_machine, may_lose=2),
        Operation("`kubectl scale macfleet`, one more", scale_up, says="not Ready"),
        Operation("`kubectl scale macfleet`, one less", scale_down, says="being deleted"),
    ),
    "fleets": (
        Operation("`replicas` ten times too high, corrected after 60 s", typo_up, says="machines", together=True),
        Operation("`replicas: 1`, corrected after 60 s", typo_down, says="being deleted"),
        Operation("delete a MacFleet, create it again", recreate_fleet, says="being deleted"),
    ),
    "pools": (
        Operation("roll an image", roll_image, says="older image", together=True),
        Operation("add a RunnerPool", add_pool),
        Operation(
            "rename a RunnerPool: delete it, create the other at once",
            rename_pool,
            says="pool is being deleted",
            empty_for=1200,
        ),
        Operation("the same, with minutes in between", replace_pool, says="pool is being deleted", empty_for=1200),
        Operation("delete a RunnerPool", delete_pool),
        Operation(
            "a limit too low for what runs, back after 5 min",
            change_limit,
            says="for the limit of",
            empty_for=600,
            together=True,
        ),
    ),
    "processes": (
        Operation("restart the operator", restart_operator),
        Operation("restart dispatch", restart_dispatch),
        Operation("restart the API server, 10 s without it", restart_api),
        Operation("`kill -9` the operator", kill_operator),
        Operation("`kill -9` dispatch", kill_dispatch),
        Operation("`kill -9` the API server", kill_api),
        Operation("`kill -9` every node agent", kill_agents),
    ),
}
"""Each chapter is done in one world, one operation after the other."""

OPERATIONS: tuple[Operation, ...] = tuple(each for chapter in CHAPTERS.values() for each in chapter)
