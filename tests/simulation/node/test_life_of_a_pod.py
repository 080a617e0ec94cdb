"""A Pod becomes a VM becomes a job."""

from datetime import timedelta

from simulation.node.node_world import IMAGE, NODE, NodeWorld

from paddock.simulator.process import World, simulate


def test_a_pod_becomes_a_vm_becomes_a_job_and_its_end_is_reported_with_true_times() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        assert mac.tart.running() == [mac.vm(uid)]
        mac.dispatch.jobs.append("job-1")
        pod = await mac.phase_is("p1", "Succeeded")
        assert pod is not None
        ended = pod.status.container_statuses[0].state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason) == (0, "Completed")
        assert "runner ended with 0" in ended.message
        assert ended.started_at is not None
        assert ended.finished_at is not None
        # The job took 20 s; the VM halts 3 s later.
        assert timedelta(seconds=22) <= ended.finished_at - ended.started_at < timedelta(seconds=50)
        assert mac.ran == ["job-1"]
        assert {mark.split()[1] for _, mark in mac.dispatch.marks} & {"listening", "running"}
        await mac.eventually("the clone is deleted", lambda: mac.vm(uid) not in mac.tart.vms)
        await world.clock.sleep(2.0)
        assert mac.running is not None
        log = mac.running.find("default", "p1")
        assert log is not None
        assert log.over()
        size, content = await log.part(0, 1 << 20) or (0, b"")
        assert (size, content.splitlines()[-1]) == (len(content), b"runner ended with 0")
        await mac.delete("p1")
        await mac.eventually("nothing is left", lambda: not mac.entries())

    simulate(scenario, seed=1)


def test_the_token_stays_on_the_host() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        assert not [path for path, content in mac.disk.files.items() if b"eyJ" in content]
        await mac.phase_is("p1", "Succeeded")

    simulate(scenario, seed=1)


def test_an_image_is_pulled_once_and_advertised() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        await mac.pod("p1")
        await mac.pod("p2")
        await mac.is_ready("p1")
        await mac.is_ready("p2")
        assert mac.tart.ledger.pulls == [IMAGE]

        async def labelled() -> bool:
            node = await mac.node()
            return node is not None and any(key.startswith("tuist.dev/golden-") for key in node.metadata.labels)

        await mac.eventually("the Node says that it holds the image", labelled)

    simulate(scenario, seed=1)


def test_the_node_is_registered_with_taint_provider_and_four_conditions() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await world.clock.sleep(25.0)
        node = await mac.node()
        assert node is not None
        assert [taint.key for taint in node.spec.taints] == ["tuist.dev/macos"]
        assert node.spec.provider_id == "scaleway://mac-1"
        assert node.metadata.labels["kubernetes.io/hostname"] == NODE
        assert node.status.allocatable["tuist.dev/vm"] == "2"
        truth = {c.type: c.status for c in node.status.conditions}
        assert (
            truth.items()
            >= {
                "Ready": "True",
                "MemoryPressure": "False",
                "DiskPressure": "False",
                "PIDPressure": "False",
            }.items()
        )
        lease = await mac.lease()
        assert lease is not None
        assert lease.spec.lease_duration_seconds == 40
        assert lease.metadata.owner_references[0].uid == node.metadata.uid

    simulate(scenario, seed=1)
