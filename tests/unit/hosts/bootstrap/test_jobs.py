"""The jobs that launchd runs on a host, as their property lists say."""

import plistlib
from pathlib import Path

import pytest
from unit.hosts.bootstrap.fleets import GUARD, example

from paddock.base.secrets import Secret
from paddock.hosts.bootstrap import EgressFirewall, FleetConfig, PerHost
from paddock.hosts.bootstrap.launchd import job_plist
from paddock.hosts.bootstrap.steps.egress_firewall import VmEgressFirewall
from paddock.hosts.bootstrap.steps.ingress_guard import SshIngressGuard

HOST = PerHost(address="203.0.113.20", key=Secret("key"), node_name="mac-1")


@pytest.mark.parametrize(
    ("step", "fleet"),
    [
        (VmEgressFirewall(), FleetConfig(egress_firewall=EgressFirewall())),
        (SshIngressGuard(), FleetConfig(ingress_guard=GUARD)),
    ],
)
def test_whoever_loads_rules_of_the_packet_filter_looks_after_them_each_minute(
    step: VmEgressFirewall | SshIngressGuard, fleet: FleetConfig
):
    job = plistlib.loads(step.rendered(HOST, fleet)[-1].encode())
    assert (job["RunAtLoad"], job["StartInterval"]) == (True, 60)


def test_what_the_agent_starts_is_no_work_of_the_background(tmp_path: Path):
    fleet = example(tmp_path)
    assert fleet.agent is not None
    assert fleet.agent.job is not None
    job = plistlib.loads(job_plist(fleet.agent.job, HOST, fleet).encode())
    assert (job["ProcessType"], job["KeepAlive"]) == ("Interactive", True)
