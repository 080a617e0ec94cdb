"""What is in the configuration hash, what is not, and what a plan refuses."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.bootstrap.fleets import GUARD, example

from paddock.base.secrets import Password, Secret
from paddock.hosts.bootstrap import (
    CarveOut,
    EgressFirewall,
    FleetConfig,
    IngressGuard,
    LaunchdJob,
    Payload,
    PerHost,
    PlanError,
    VirtualMachines,
    config_hash,
)
from paddock.hosts.bootstrap.plan import PLACEHOLDER_HOST, fill
from paddock.hosts.bootstrap.steps import all_steps, live_steps

SHA = "a" * 64
NEVER_LIVE = {"passwordless-sudo", "auto-login", "hostname", "payload-tart"}


def names(of: type) -> set[str]:
    return {field.name for field in dataclasses.fields(of)}


def test_every_field_belongs_to_the_fleet_or_to_the_host_and_to_one_alone():
    assert not names(FleetConfig) & names(PerHost)
    assert names(FleetConfig) | names(PerHost) == {
        *("payloads", "egress_firewall", "ingress_guard", "kubeconfig_path", "host_cpu", "host_memory_mb"),
        *("max_pods", "node_labels", "ssh_watchdog_seconds", "virtual_machines"),
        *("address", "port", "fallback_address", "username", "password", "key", "node_name", "provider_id"),
        *("kubeconfig", "host_key"),
    }, "decide where a new field belongs, and name it here"


CHANGES = {
    "payloads": (),
    "egress_firewall": None,
    "ingress_guard": GUARD,
    "kubeconfig_path": "/etc/other/kubeconfig",
    "host_cpu": 10,
    "host_memory_mb": 8192,
    "max_pods": 4,
    "node_labels": (("tuist.dev/fleet", "builders"),),
    "ssh_watchdog_seconds": 30,
    "virtual_machines": None,
}


@pytest.mark.parametrize("field", sorted(names(FleetConfig)))
def test_every_field_of_the_fleet_moves_the_hash(field: str, tmp_path: Path):
    fleet = example(tmp_path)
    assert config_hash(dataclasses.replace(fleet, **{field: CHANGES[field]})) != config_hash(fleet)


def test_the_hash_is_stable(tmp_path: Path):
    assert config_hash(example(tmp_path)) == config_hash(example(tmp_path))


def test_where_the_same_bytes_come_from_does_not_move_the_hash(tmp_path: Path):
    fleet = example(tmp_path)
    moved = tuple(dataclasses.replace(p, source=f"https://files.example/{p.name}") for p in fleet.payloads)
    assert config_hash(dataclasses.replace(fleet, payloads=moved)) == config_hash(fleet)


def test_other_bytes_of_the_agent_move_the_hash_and_other_bytes_of_the_virtualisation_tool_do_not(tmp_path: Path):
    fleet = example(tmp_path)
    tart, agent = fleet.payloads
    assert config_hash(
        dataclasses.replace(fleet, payloads=(tart, dataclasses.replace(agent, sha256=SHA)))
    ) != config_hash(fleet)
    # It is never swapped under running machines, so a host with the older one must not look outdated for ever.
    assert config_hash(
        dataclasses.replace(fleet, payloads=(dataclasses.replace(tart, sha256=SHA), agent))
    ) == config_hash(fleet)


def test_every_change_of_the_firewall_and_of_the_guard_moves_the_hash(tmp_path: Path):
    fleet = example(tmp_path, ingress_guard=GUARD)
    variants = [
        dataclasses.replace(fleet, egress_firewall=EgressFirewall()),
        dataclasses.replace(fleet, egress_firewall=EgressFirewall(blocked=("10.0.0.0/8",))),
        dataclasses.replace(fleet, ingress_guard=None),
        dataclasses.replace(fleet, ingress_guard=dataclasses.replace(GUARD, allow=("203.0.113.8/32",))),
        dataclasses.replace(fleet, ingress_guard=dataclasses.replace(GUARD, second_path="10.8.0.0/16")),
    ]
    assert len({config_hash(variant) for variant in [fleet, *variants]}) == 6


def test_what_is_hashed_is_what_an_update_installs_and_nothing_that_must_not_run_live(tmp_path: Path):
    fleet = example(tmp_path)
    everything, live = [step.name for step in all_steps(fleet)], [step.name for step in live_steps(fleet)]
    assert set(everything) - set(live) == NEVER_LIVE
    assert [name for name in everything if name in live] == live, "in the same order"
    assert len(everything) == len(set(everything))


def test_no_step_renders_a_value_of_the_host_that_changes_on_its_own(tmp_path: Path):
    fleet = example(tmp_path)
    host = dataclasses.replace(
        PLACEHOLDER_HOST,
        address="198.51.100.1",
        key=Secret("another key"),
        password=Password("another password"),
        kubeconfig=Secret("another kubeconfig"),
        host_key="SHA256:other",
        port=2222,
        fallback_address="100.64.0.1",
    )
    for step in live_steps(fleet):
        assert step.rendered(host, fleet) == step.rendered(PLACEHOLDER_HOST, fleet)


def test_the_firewall_is_up_before_the_agent_that_starts_machines(tmp_path: Path):
    order = [step.name for step in all_steps(example(tmp_path))]
    assert order.index("egress-firewall") < order.index("payload-tart-kubelet")
    assert order.index("node-kubeconfig") < order.index("payload-tart-kubelet") == len(order) - 1
    assert order[0] == "passwordless-sudo"


JOB = LaunchdJob(label="dev.example.job", arguments=("/usr/local/bin/x",))


def payload(**changes: Any) -> Payload:
    settings: dict[str, Any] = {"name": "x", "source": "x", "sha256": SHA, "install_to": "/usr/local/bin/x"}
    return Payload(**settings | changes)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: payload(name="Bad Name"), "payload.name"),
        (lambda: payload(sha256="abc"), "sha256"),
        (lambda: payload(install_to="usr/x"), "install_to"),
        (lambda: payload(install_to="/usr"), "install_to"),
        (lambda: payload(source="http://plain.example/x"), "source"),
        (lambda: payload(command="/usr/local/bin/y"), "command"),
        (lambda: payload(form="tarball", program="y", command="y"), r"x\.command.*/usr/local/bin/x"),
        (lambda: payload(form="tarball", program="y", command="/y"), r"x\.command.*/usr/local/bin/x"),
        (lambda: payload(form="tarball", program="y", command="/opt/y"), r"x\.command.*/usr/local/bin/x"),
        (lambda: payload(agent=True), "agent"),
        (lambda: LaunchdJob(label="no spaces", arguments=("/x",)), "job.label"),
        (lambda: LaunchdJob(label="x", arguments=("relative",)), "job.arguments"),
        (lambda: FleetConfig(payloads=(payload(), payload())), "payloads"),
        (lambda: FleetConfig(payloads=(payload(job=dataclasses.replace(JOB, arguments=("/x{oops}",))),)), "oops"),
        (lambda: FleetConfig(kubeconfig_path="/etc/kubeconfig"), "kubeconfig_path"),
        (lambda: EgressFirewall(blocked=("10.0.0.1/8",)), "egress_firewall"),
        (lambda: EgressFirewall(vm_sources=("fd00::/8",)), "egress_firewall"),
        (lambda: EgressFirewall(blocked=()), "egress_firewall"),
        (lambda: VirtualMachines(dhcp_lease_seconds=86400), "dhcp_lease_seconds"),
        (lambda: VirtualMachines(softnet="softnet"), "softnet"),
        (lambda: VirtualMachines(softnet="/usr/local/bin/soft net"), "softnet"),
        (lambda: VirtualMachines(shares_volume="../etc"), "shares_volume"),
        (lambda: VirtualMachines(shares_quota_mb=1), "shares_quota_mb"),
        (lambda: CarveOut(destination="10.0.0.0/8", ports="4000 to any"), "ports"),
        (lambda: IngressGuard(allow=(), second_path="100.64.0.0/10"), "allow"),
        (lambda: IngressGuard(allow=("everywhere",), second_path="100.64.0.0/10"), "ingress_guard"),
        (lambda: PerHost(address="x", key=Secret("k"), node_name="UPPER"), "node_name"),
        (lambda: PerHost(address="x", key=Secret("k"), node_name="a", username="m1 ALL"), "username"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_by_name(make, field: str):
    with pytest.raises(PlanError, match=field):
        make()


def test_a_version_of_the_credentials_changes_with_the_password_and_tells_nothing_about_it():
    host = PerHost(address="x", key=Secret("fleet key"), node_name="a", password=Password("one"))
    other = dataclasses.replace(host, password=Password("two"))
    assert host.credentials_version == dataclasses.replace(host, address="y").credentials_version
    assert host.credentials_version != other.credentials_version
    assert dataclasses.replace(host, password=None).credentials_version == ""
    # Without the fleet's key the same password gives another word, so it cannot be looked up.
    assert host.credentials_version != dataclasses.replace(host, key=Secret("other")).credentials_version


def test_nothing_of_a_host_shows_its_secrets():
    host = PerHost(address="x", key=Secret("kkk"), node_name="a", password=Password("ppp"), kubeconfig=Secret("ccc"))
    assert len(host.secrets) == 3
    assert not any(word in repr(host) for word in ("kkk", "ppp", "ccc"))


def test_arguments_of_a_job_carry_the_hosts_values(tmp_path: Path):
    host = PerHost(address="x", key=Secret("k"), node_name="mac-1", provider_id="scw-applesilicon://fr-par-1/1")
    fleet = example(tmp_path)
    assert fill("--id={provider_id}", host, fleet) == "--id=scw-applesilicon://fr-par-1/1"
    assert fill("{node_labels}", host, fleet) == "tuist.dev/fleet=runners"
