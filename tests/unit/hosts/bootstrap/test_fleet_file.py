import inspect
from pathlib import Path

import pytest

from paddock.hosts.bootstrap import FleetConfig, PlanError, fleet_file
from paddock.hosts.bootstrap.fleet_file import load_fleet, parse_fleet

EXAMPLE = (
    inspect.cleandoc((fleet_file.__doc__ or "").partition("\n\n")[2])
    .replace("5f0c…", "a" * 64)
    .replace("9d1e…", "b" * 64)
)


def test_the_documented_example_is_a_configuration(tmp_path: Path):
    (tmp_path / "fleet.yaml").write_text(EXAMPLE)
    fleet = load_fleet(tmp_path / "fleet.yaml")
    tart, agent = fleet.payloads
    assert tart.fetched_by_host
    assert not tart.swap_under_vms
    assert fleet.agent is agent
    assert agent.job is not None
    needed = {"--provider-id={provider_id}", "--node-labels={node_labels}"}
    assert needed <= set(agent.job.arguments), "Cluster API finds a Node by the one, pools place Pods by the other"
    assert agent.source == str(tmp_path / "tart-kubelet")
    assert fleet.ingress_guard is not None
    assert fleet.egress_firewall is not None
    assert fleet.egress_firewall.carve_outs[0].ports == "4000"
    assert fleet.node_labels == (("tuist.dev/runtime", "tart"),)


def test_an_empty_file_is_the_defaults():
    assert parse_fleet("") == FleetConfig()


def test_a_feature_can_be_switched_off():
    assert parse_fleet("egress_firewall: null").egress_firewall is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("host_cpus: 4", "host_cpus"),
        ("egress_firewall: {blocks: [10.0.0.0/8]}", "egress_firewall.blocks"),
        ("egress_firewall: {carve_outs: [{destination: 10.0.0.0/8, ports: '1', port: 2}]}", r"carve_outs\[0\].port"),
        ("host_cpu: many", "host_cpu"),
        ("payloads: [{name: x}]", "source"),
        ("- a list", "mapping"),
        ("a: [", "YAML"),
        ("egress_firewall: {blocked: [nowhere]}", "nowhere"),
    ],
)
def test_a_mistake_is_named(text: str, named: str):
    with pytest.raises(PlanError, match=named):
        parse_fleet(text)
