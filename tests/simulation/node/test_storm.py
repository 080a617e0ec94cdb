"""Everything goes wrong at once for a while, from several seeds; afterwards all comes right, and each job ran at most once."""

import pytest
from simulation.branches import interrupted_calls
from simulation.node.node_world import NodeWorld

from paddock.simulator.faults import Crash, Duplicate, Fail, FaultMoment, LoseAnswer
from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import World, simulate
from paddock.simulator.tart import Mishap


@pytest.mark.parametrize("seed", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in range(1, 4))])
def test_a_storm_loses_no_pod_runs_no_job_twice_and_leaves_nothing(seed: int) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        mac.duration = 30.0
        rng = world.rng("storm")
        mac.tart.runner_faults += [rng.choice([None, None, *Mishap]) for _ in range(6)]
        world.faults.inject(
            Fail(),
            LoseAnswer(),
            Duplicate(),
            Crash(FaultMoment.BEFORE),
            Crash(FaultMoment.AFTER),
            process="agent",
            probability=0.05,
            until=900.0,
            where=lambda call: "tart run" not in call.name or rng.random() < 0.5,
        )
        names: dict[str, str] = {}
        for number in range(6):
            mac.dispatch.jobs.append(f"job-{number}")
            names[f"p{number}"] = await mac.pod(f"p{number}")
            await world.clock.sleep(rng.uniform(20.0, 200.0))
        mac.safe()

        async def all_over() -> bool:
            return all([await mac.phase(name) in ("Succeeded", "Failed") for name in names])

        await world.clock.sleep(max(0.0, 900.0 - world.clock.monotonic()))
        mac.dispatch.drained.update(names.values())  # who is still idle is let go
        await mac.eventually("every Pod has ended", all_over, 1500.0, step=15.0)
        assert len(mac.ran) == len(set(mac.ran)), f"ran twice: {mac.ran}"
        for name in names:
            await mac.delete(name)
        await mac.eventually(
            "nothing is left", lambda: not mac.entries() and not any(n.startswith("pdk-") for n in mac.tart.vms), 600.0
        )
        assert not mac.tart.running()

    simulate(scenario, seed=seed)


async def dies_at_once_then_works(world: World) -> None:
    mac = NodeWorld(world)
    mac.tart.runner_faults += [Mishap.DIES_AT_ONCE]
    uid = await mac.pod("p1")
    await mac.is_ready("p1", within=200.0)
    # One run more where the crash fell between the run and its record, never two at a time (`safe` looks for overlaps).
    assert mac.tart.ledger.runs == [mac.vm(uid)] * 2


@pytest.mark.slow
def test_a_second_run_survives_an_interruption_at_each_of_its_effects() -> None:
    kinds = [Interruption.CRASH_BEFORE, Interruption.CRASH_AFTER, Interruption.LOSE_ANSWER]
    calls = interrupted_calls(
        dies_at_once_then_works,
        kinds=kinds,
        only=lambda call: call.process == "agent" and call.name.startswith(("tart", "disk")),
    )
    assert len([call for call in calls if call.name.startswith("tart run")]) == 6
