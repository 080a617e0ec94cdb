"""One way to find a Mac by name, for the page and for the command line."""

from unit.hosts.made import FREE_NAME, OTHER_ID, SERVER_ID, claim, host, machine

from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, Pod, PodSpec, PodStatus
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL
from paddock.views.finding import Mac, busy_pods, find_mac, hosts_called, pods_on

HOSTS = [host(SERVER_ID, spec={"claim": claim()}, cloud_name="m-1"), host(OTHER_ID)]
NODES = [Node(metadata=ObjectMeta(name="m-0")), Node(metadata=ObjectMeta(name="m-1"))]


def pod(name: str, *, node: str = "m-1", phase: str = "Running", **labels: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, labels=labels), spec=PodSpec(node_name=node), status=PodStatus(phase=phase)
    )


def bound(host_name: str = SERVER_ID) -> ScalewayAppleSiliconMachine:
    return machine(host_name=host_name, server_id=SERVER_ID)


def test_a_mac_is_found_by_its_machine_with_host_and_node() -> None:
    owner = bound()
    assert find_mac("m-1", HOSTS, [owner], NODES) == Mac(HOSTS[0], owner, NODES[1])


def test_a_mac_is_found_by_its_server_with_the_machine_that_claims_it() -> None:
    owner = bound()
    assert find_mac(SERVER_ID, HOSTS, [owner], NODES) == Mac(HOSTS[0], owner, NODES[1])


def test_a_machine_that_names_only_its_server_still_has_its_host() -> None:
    owner = bound(host_name="")
    assert find_mac("m-1", HOSTS, [owner]) == Mac(HOSTS[0], owner)


def test_a_free_host_is_found_by_its_name_in_the_cloud() -> None:
    assert find_mac(FREE_NAME, HOSTS, []) == Mac(HOSTS[1], None)


def test_two_servers_of_one_name_are_not_guessed_between() -> None:
    alike = [host(SERVER_ID), host(OTHER_ID)]
    assert find_mac(FREE_NAME, alike, []) is None
    assert hosts_called(FREE_NAME, alike) == alike


def test_a_shortened_name_is_no_name_but_says_what_it_may_mean() -> None:
    assert find_mac(OTHER_ID[:8], HOSTS, []) is None
    assert hosts_called(OTHER_ID[:8], HOSTS) == [HOSTS[1]]


def test_a_busy_pod_is_a_runner_of_the_node_that_is_stamped_and_has_not_ended() -> None:
    runner = {RUNNER_LABEL: "true"}
    stamped = {**runner, OWNER_LABEL: "acme"}
    idle, busy = pod("idle", **runner), pod("busy", **stamped)
    pods = [
        idle,
        busy,
        pod("ended", phase="Succeeded", **stamped),
        pod("elsewhere", node="m-2", **stamped),
        pod("no-runner", **{OWNER_LABEL: "acme"}),
    ]
    assert pods_on(pods, "m-1") == [idle, busy]
    assert busy_pods(pods, "m-1") == [busy]
