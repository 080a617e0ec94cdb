"""Our provider under the real Cluster API core: what core promises its users holds for Macs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import yaml
from unit.deploy.rendering import NAMESPACE, RELEASE, ROOT

from paddock.base.clock import rfc3339
from paddock.hosts.api import ScalewayAppleSiliconCluster as InfraCluster
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as InfraMachine
from paddock.hosts.api import ScalewayAppleSiliconRemediation as Remediation
from paddock.hosts.api import ScalewayAppleSiliconRemediationTemplate as RemediationTemplate
from paddock.hosts.remediation import AFTER, GIVE_BACK
from paddock.kube.builtin import Node, Pod, SecretObject
from paddock.kube.conditions import get_condition
from paddock.kube.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from kube.cluster_api_core import Assets
    from kube.cluster_api_world import Site, World

pytestmark = pytest.mark.asyncio(loop_scope="module")
FLEET = f"{RELEASE}-macos"


@pytest.fixture(scope="module")
def programs(pytestconfig: pytest.Config) -> "tuple[Path, Assets]":
    from kube.cluster_api_core import provide_assets
    from kube.controlplane import provide_binaries

    # The first build takes minutes: let its progress and its complaints reach the terminal.
    capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        return provide_binaries(), provide_assets()


@pytest.fixture(scope="module")
def home(programs: "tuple[Path, Assets]", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Site]":
    from kube.cluster_api_world import site

    with site(*programs, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(home: "Site") -> "AsyncIterator[World]":
    """Three Macs, an operator that reclaims orphaned ones, and the chart's fleet. Each test says how many it needs."""
    from kube.cluster_api_world import at_work, delivered

    async with (
        delivered(home, "under core", hosts=3) as macs,
        at_work(home, macs, claim_name_prefix=f"{RELEASE}-", reclaim_interval=2.0) as made,
    ):
        yield made


async def test_a_machine_deployment_becomes_available_on_macs_whose_nodes_report_all_that_core_asks_for(world: "World"):
    await world.scale(2)
    for machine in await world.machines():
        name = machine["metadata"]["name"]
        assert machine["status"]["phase"] == "Running"
        assert machine["status"]["nodeRef"]["name"] == name, "the Node has the name of its Machine"
        node = await world.node(name)
        assert node is not None
        host = world.macs.named(name)
        assert host is not None, "the cloud shows the Machine's name"
        assert node.spec.provider_id == machine["spec"]["providerID"]
        assert machine["spec"]["providerID"].endswith(host.id)
        reported = {each.type: each.status for each in node.status.conditions}
        asked_for = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
        assert asked_for.items() <= reported.items()
        assert set(reported.values()) - {"True"} == {"False"}, "and what else the agent says is no problem either"
        assert node.metadata.annotations["cluster.x-k8s.io/machine"] == name, "core may patch Nodes"
    assert world.refused() == {}, "the chart's rights are enough"


async def test_the_cluster_with_the_stub_control_plane_is_available(world: "World"):
    from kube.cluster_api_world import CLUSTERS, condition

    await world.scale(2)

    async def available() -> bool:
        return condition(await world.admin.get(CLUSTERS, RELEASE, NAMESPACE), "Available") == "True"

    await world.until("the Cluster is Available", available)


async def test_core_has_its_kubeconfig_before_it_looks_for_it_and_every_right_that_it_uses(world: "World"):
    await world.scale(2)
    secret = await world.kubeconfig()
    infra = await world.admin.get(InfraCluster, RELEASE, NAMESPACE)
    assert secret.type == "cluster.x-k8s.io/secret"
    assert secret.metadata.labels["cluster.x-k8s.io/cluster-name"] == RELEASE
    assert [owner.uid for owner in secret.metadata.owner_references] == [infra.metadata.uid]
    said = get_condition(infra.status.conditions, "Ready")
    assert said is not None
    assert (said.status, said.reason) == ("True", "KubeconfigIssued")
    log = world.site.core.log()
    assert f'"{RELEASE}-kubeconfig" not found' not in log
    assert "is forbidden" not in log


async def test_core_goes_on_with_a_new_token_when_the_old_one_dies(world: "World"):
    """The account is made anew, as after a restore: the old token is refused, and the Secret has a new one."""
    await world.scale(2)
    before = await world.kubeconfig()
    world.site.plane.run_kubectl("-n", NAMESPACE, "delete", "serviceaccount", f"cluster-api-{RELEASE}")
    # Anything that concerns the cluster makes us look; without it we do within ten minutes.
    await world.admin.merge_patch(InfraCluster, RELEASE, {"metadata": {"labels": {"looked-at": "now"}}}, NAMESPACE)

    async def renewed() -> bool:
        return (await world.kubeconfig()).data != before.data

    await world.until("the Secret has a new token", renewed)
    await world.scale(1)
    await world.scale(2)


async def test_scaling_down_drains_the_node_deletes_it_and_gives_the_mac_back_wiped(world: "World"):
    await world.scale(2)
    before = {name: world.macs.named(name) for name in [m["metadata"]["name"] for m in await world.machines()]}
    installs = {name: host.install for name, host in before.items() if host is not None}
    await world.scale(1)
    (kept,) = [machine["metadata"]["name"] for machine in await world.machines()]
    (gone,) = before.keys() - {kept}

    async def left() -> bool:
        return await world.node(gone) is None

    # The agent registers again for as long as it runs: the Node ends for good when the Mac's disk does.
    await world.until("the Node is gone", left)
    assert await world.node(kept) is not None
    assert await world.infra(gone) is None

    await world.given_back(before[gone], installs[gone])


async def test_a_machine_with_a_busy_runner_waits_until_the_job_is_done(world: "World"):
    from kube.cluster_api_world import MACHINES

    await world.scale(1)
    (machine,) = await world.machines()
    name = machine["metadata"]["name"]
    host = world.macs.named(name)
    assert host is not None
    install = host.install
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "busy", "namespace": "default", "labels": {"tuist.dev/runner": "true"}},
        "spec": {"nodeName": name, "containers": [{"name": "runner", "image": "runner"}]},
    }
    await world.admin.create(pod, Pod.RESOURCE)
    running = {"status": {"phase": "Running"}}
    await world.admin.merge_patch(Pod, "busy", running, "default", subresource="status")
    await world.admin.delete(MACHINES, name, NAMESPACE)

    async def draining() -> bool:
        found = await world.machine(name)
        said = [each for each in (found or {})["status"]["conditions"] if each["type"] == "Deleting"]
        return bool(said) and said[0]["reason"] == "DrainingNode" and "busy" in said[0]["message"]

    await world.until("core waits for the job", draining)
    node, infra = await world.admin.get(Node, name), await world.infra(name)
    assert node.spec.unschedulable
    assert infra is not None
    assert infra.metadata.deletion_timestamp is None, "the Mac is not touched"
    assert world.macs.cloud.host(host.id).install == install
    done = {"status": {"phase": "Succeeded"}}
    await world.admin.merge_patch(Pod, "busy", done, "default", subresource="status")

    async def gone() -> bool:
        return await world.machine(name) is None

    # Core waits for the Pod to be gone, not only to be done: our pools delete what has had its job.
    await world.admin.delete(Pod, "busy", "default", grace_period=0)
    await world.until("the Machine goes once the job is done", gone)
    await world.scale(1)


async def test_an_infrastructure_object_that_is_deleted_by_force_gives_its_mac_back(world: "World"):
    from kube.cluster_api_world import CLUSTERS, MACHINES

    # Of two: were it the last one, the sweep would take the cluster for emptied and wait for a person.
    await world.scale(2)
    machine, _ = await world.machines()
    name = machine["metadata"]["name"]
    host = world.macs.named(name)
    assert host is not None
    install = host.install
    # While the Cluster is paused the operator holds still, so that a hand with kubectl is quicker than it.
    await world.admin.merge_patch(CLUSTERS, RELEASE, {"spec": {"paused": True}}, NAMESPACE)
    await asyncio.sleep(1.0)
    await world.admin.delete(InfraMachine, name, NAMESPACE)
    await world.admin.merge_patch(InfraMachine, name, {"metadata": {"finalizers": None}}, NAMESPACE)
    await world.admin.merge_patch(CLUSTERS, RELEASE, {"spec": {"paused": False}}, NAMESPACE)

    async def noticed() -> bool:
        return await world.infra(name) is None and "ObjectDeleted" in str(
            (await world.machine(name) or {}).get("status")
        )

    await world.until("core notices", noticed)
    await world.given_back(host, install)
    await world.admin.delete(MACHINES, name, NAMESPACE)

    async def replaced() -> bool:
        return await world.machine(name) is None

    await world.until("the Machine can go", replaced)
    await world.scale(1)


async def test_a_health_check_without_a_start_up_timeout_leaves_machines_alone_that_wait_for_a_mac(world: "World"):
    from kube.cluster_api_world import HEALTH_CHECKS, condition

    await world.scale(1)
    check = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineHealthCheck",
        "metadata": {"name": "macs", "namespace": NAMESPACE},
        "spec": {
            "clusterName": RELEASE,
            "selector": {"matchLabels": {"tuist.dev/fleet": "macos"}},
            "checks": {
                "nodeStartupTimeoutSeconds": 0,
                "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}],
            },
        },
    }
    await world.admin.create(check, HEALTH_CHECKS)
    try:
        await world.ask(5)

        async def two_wait() -> bool:
            waiting = [
                each
                for machine in await world.machines()
                if (each := await world.infra(machine["metadata"]["name"])) is not None
                and (said := get_condition(each.status.conditions, "Ready")) is not None
                and said.reason == "NoAvailableHost"
            ]
            checked = await world.admin.get(HEALTH_CHECKS, "macs", NAMESPACE)
            return len(waiting) == 2 and checked.get("status", {}).get("expectedMachines") == 5

        await world.until("two of five machines have no Mac", two_wait)
        before = {machine["metadata"]["uid"] for machine in await world.machines()}
        await asyncio.sleep(8.0)
        after = await world.machines()
        assert {machine["metadata"]["uid"] for machine in after} == before
        assert not [machine for machine in after if condition(machine, "HealthCheckSucceeded") == "False"]
    finally:
        await world.admin.delete(HEALTH_CHECKS, "macs", NAMESPACE)
        await world.scale(1)


async def _health_check(world: "World") -> dict[str, Any]:
    """The documented example, for this release; its template is made, and a strategy that does not exist is refused."""
    from kube.cluster_api_world import HEALTH_CHECKS

    template, check = yaml.safe_load_all((ROOT / "docs" / "examples" / "health-check.yaml").read_text())
    for each in (template, check):
        each["metadata"]["namespace"] = NAMESPACE
    check["spec"]["clusterName"] = RELEASE
    wrong = template | {"spec": {"template": {"spec": {"strategy": "Explode"}}}}
    with pytest.raises(InvalidError, match=r'strategy: Unsupported value: "Explode"'):
        await world.admin.create(wrong, RemediationTemplate.RESOURCE)
    await world.admin.create(template, RemediationTemplate.RESOURCE)
    return await world.admin.create(check, HEALTH_CHECKS)


async def test_a_health_check_asks_for_remediation_takes_it_back_and_in_the_end_core_replaces_the_machine(
    world: "World", monkeypatch: pytest.MonkeyPatch
):
    """The real MachineHealthCheck, with the documented example. A person's annotation makes it find a Machine unhealthy."""
    from kube.cluster_api_world import HEALTH_CHECKS, MACHINES

    await world.scale(1)
    (machine,) = await world.machines()
    name, uid = machine["metadata"]["name"], machine["metadata"]["uid"]
    host = world.macs.named(name)
    assert host is not None
    install = host.install
    await _health_check(world)

    async def unhealthy(value: str | None) -> None:
        marked = {"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": value}}}
        await world.admin.merge_patch(MACHINES, name, marked, NAMESPACE)

    async def asked() -> Remediation | None:
        try:
            return await world.admin.get(Remediation, name, NAMESPACE)
        except NotFoundError:
            return None

    async def told() -> bool:
        found = await asked()
        said = get_condition(found.status.conditions, "Progressing") if found is not None else None
        # Until the operator has seen its Node for the first time, the machine is still being set up.
        return (
            found is not None and found.status.phase == "Waiting" and said is not None and said.reason != "BeingSetUp"
        )

    async def taken_back() -> bool:
        return await asked() is None

    try:
        await unhealthy("")
        await world.until("the health check asks, and is told where it stands", told)
        found = await asked()
        assert found is not None
        assert [owner.uid for owner in found.metadata.owner_references] == [uid]
        said = get_condition(found.status.conditions, "Progressing")
        assert said is not None
        assert said.reason == "TierNotDue"
        assert said.message.startswith("a MachineHealthCheck asks for remediation")
        infra = await world.infra(name)
        assert infra is not None
        assert infra.status.ready, "to our own eyes it is well"
        await unhealthy(None)
        await world.until("the health check takes it back", taken_back)
        node, infra = await world.admin.get(Node, name), await world.infra(name)
        assert not node.spec.unschedulable
        assert infra is not None
        assert infra.status.remediation is None

        # All tiers but the last were tried, an hour ago; the last one does not wait for its time.
        monkeypatch.setitem(AFTER, GIVE_BACK, timedelta(0))
        await unhealthy("")
        await world.until("the health check asks again", told)
        before = rfc3339(world.macs.clock.now() - timedelta(hours=1))
        tried = {"status": {"remediation": {"since": before, "tier": 4, "at": before}, "reinstalledAt": before}}
        await world.admin.merge_patch(InfraMachine, name, tried, NAMESPACE, subresource="status")

        async def replaced() -> bool:
            return [each["metadata"]["uid"] for each in await world.machines()] not in ([], [uid]) and (
                await world.machine(name) is None
            )

        await world.until("core replaces the Machine", replaced)
        await world.given_back(host, install)
        ledger = await world.admin.get(Host, host.id, NAMESPACE)
        assert ledger.status.history.failed_lives == 1, "it is chosen last from now on"
        await world.until("the remediation went with its Machine", taken_back)
        assert world.refused() == {}, "the chart's rights are enough"
    finally:
        await world.admin.delete(HEALTH_CHECKS, "macs", NAMESPACE)
        await world.admin.delete(RemediationTemplate, "macs", NAMESPACE)
        await world.scale(1)


async def test_a_kubeconfig_made_by_hand_is_never_written(world: "World"):
    await world.scale(1)
    ours = await world.kubeconfig()
    by_hand = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}, "annotations": {"by": "hand"}}}
    await world.admin.merge_patch(SecretObject, ours.metadata.name, by_hand, NAMESPACE)
    await world.admin.merge_patch(InfraCluster, RELEASE, {"metadata": {"labels": {"looked-at": "again"}}}, NAMESPACE)

    async def noticed() -> bool:
        infra = await world.admin.get(InfraCluster, RELEASE, NAMESPACE)
        said = get_condition(infra.status.conditions, "KubeconfigReady")
        return said is not None and said.reason == "KubeconfigGiven"

    await world.until("it is taken for somebody else's", noticed)
    assert (await world.kubeconfig()).data == ours.data
    await world.admin.delete(SecretObject, ours.metadata.name, NAMESPACE)
    await world.admin.merge_patch(InfraCluster, RELEASE, {"metadata": {"labels": {"looked-at": "later"}}}, NAMESPACE)

    async def ours_again() -> bool:
        infra = await world.admin.get(InfraCluster, RELEASE, NAMESPACE)
        said = get_condition(infra.status.conditions, "KubeconfigReady")
        return said is not None and said.reason == "KubeconfigIssued"

    await world.until("a new one is made where there is none", ours_again)


async def test_a_move_by_clusterctl_takes_the_macs_along_and_wipes_none(
    programs: "tuple[Path, Assets]", tmp_path_factory: pytest.TempPathFactory
):
    """Two real sites, one cloud, both operators at work all the time; the source's only reports what it takes for orphans."""
    from kube.cluster_api_core import move
    from kube.cluster_api_world import at_work, delivered, site

    binaries, assets = programs
    folder = tmp_path_factory.mktemp("move")
    with (
        site(binaries, assets, folder / "source") as source,
        site(binaries, assets, folder / "target", populated=False) as target,
    ):
        async with delivered(source, "moved", hosts=2) as macs, at_work(source, macs) as before:
            await before.scale(2)
            had = {each["metadata"]["name"]: each["spec"]["providerID"] for each in await before.machines()}
            async with at_work(target, macs) as after:
                await asyncio.to_thread(move, assets, source.plane, target.plane, NAMESPACE, folder)
                assert not await before.machines()

                async def taken_up() -> bool:
                    machines = {name: await after.infra(name) for name in had}
                    return all(each is not None and each.status.ready for each in machines.values())

                await after.until("the target has both Macs", taken_up)
                await after.scale(2)
                assert {each["metadata"]["name"]: each["spec"]["providerID"] for each in await after.machines()} == had
                assert macs.wipes() == 0
                assert {host.name for host in macs.cloud.hosts()} == set(had)
                token, moved = await after.kubeconfig(), after.site.plane.url
                assert moved.encode() in token.data["value"], "core of the target finds the Nodes of the target"
