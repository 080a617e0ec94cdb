from typing import Any

import pytest
from unit.hosts.bootstrap.fleets import GUARD

from paddock.hosts.bootstrap import CarveOut, EgressFirewall
from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.packet_filter import egress_rules, guard_is_safe, ingress_rules
from paddock.simulator.mac.pf_rules import RulesetError, parse
from paddock.simulator.mac.pf_verdict import Packet, verdict


def test_exceptions_stand_before_what_they_are_exceptions_from():
    firewall = EgressFirewall(carve_outs=(CarveOut(destination="10.96.0.10/32", ports="53", protocols=("tcp", "udp")),))
    lines = egress_rules(firewall).splitlines()
    passes = [index for index, line in enumerate(lines) if line.startswith("pass") and "10.96.0.10/32" in line]
    blocks = [index for index, line in enumerate(lines) if "to <blocked_dst>" in line]
    assert len(passes) == 4, "both protocols, on the bridge and on the way out"
    assert max(passes) < min(blocks)


def test_no_table_outlives_its_rules():
    assert "persist" not in egress_rules(EgressFirewall())
    assert "persist" not in ingress_rules(GUARD)


def test_the_metadata_address_is_blocked_whatever_the_networks_are():
    assert "169.254.169.254" in egress_rules(EgressFirewall(blocked=("10.0.0.0/8",)))


def test_the_guard_lets_in_the_host_itself_the_allowed_and_what_machines_send_out_and_nobody_else():
    rules = [line for line in ingress_rules(GUARD).splitlines() if line.startswith(("pass", "block"))]
    assert [rule.split()[0] for rule in rules] == ["pass", "pass", "block", "pass", "block"]
    assert "lo0" in rules[0]
    assert "<ssh_allowed>" in rules[1]
    assert rules[2].count("<vm_ssh_sources>") == 2
    assert rules[4] == "block drop in quick proto tcp from any to any port 22"
    assert "100.64.0.0/10" in ingress_rules(GUARD)


@pytest.mark.parametrize(
    ("peer", "addresses", "why"),
    [
        ("203.0.113.7", ["192.0.2.1", "100.64.3.4"], None),
        ("100.70.0.1", ["100.64.3.4"], None),
        ("198.51.100.1", ["100.64.3.4"], "198.51.100.1"),
        ("203.0.113.7", ["192.0.2.1"], "second way in"),
        ("203.0.113.7", [], "second way in"),
        ("", ["100.64.3.4"], "not known"),
        ("2001:db8::1", ["100.64.3.4"], "2001:db8::1"),
        ("203.0.113.7", ["garbage", "100.64.3.4"], None),
    ],
)
def test_the_guard_is_installed_only_where_it_cannot_lock_us_out(peer: str, addresses: list[str], why: str | None):
    verdict = guard_is_safe(GUARD, peer, addresses)
    if why is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert why in verdict


OWN = ("192.168.64.1", "fe80::1", "203.0.113.20", "2001:db8::20")
CARVED = EgressFirewall(carve_outs=(CarveOut(destination="10.96.0.0/12", ports="4000:4001"),))


def judged(text: str, **packet: Any) -> str:
    """What the rules do with a packet: `pass` or `block`."""
    ruleset = parse("rules", text + "\n", lambda _: None)
    tables = {table.name: table.addresses for table in ruleset.tables}
    defaults = {"way": "in", "interface": "bridge100", "source": "192.168.64.5", "port": 443}
    decided = verdict(ruleset.filters, tables, Packet(**(defaults | packet)), OWN)
    return "block" if decided.startswith("block") else "pass"


@pytest.mark.parametrize(
    "target",
    [
        *("10.1.2.3", "172.16.0.9", "172.31.255.1", "192.168.1.1", "192.168.64.1", "100.64.0.1", "100.127.1.1"),
        *("169.254.169.254", "169.254.1.1", "fc00::1", "fd12:3456::1", "fe80::1"),
    ],
)
def test_no_machine_reaches_a_private_network(target: str):
    for protocol in ("tcp", "udp", "icmp"):
        assert judged(egress_rules(EgressFirewall()), target=target, protocol=protocol) == "block"


@pytest.mark.parametrize("target", ["1.1.1.1", "140.82.121.4", "172.32.0.1", "100.128.0.1", "2606:4700::1111"])
def test_every_machine_reaches_the_internet(target: str):
    assert judged(egress_rules(EgressFirewall()), target=target) == "pass"


@pytest.mark.parametrize("target", OWN)
@pytest.mark.parametrize(
    "packet",
    [
        *({"port": port} for port in (22, 80, 445, 3283, 5900, 8080, 10250)),
        {"protocol": "udp", "port": 5353},
        {"protocol": "icmp"},
    ],
)
def test_no_machine_reaches_its_host_but_for_an_address_and_names(target: str, packet: dict[str, Any]):
    assert judged(egress_rules(EgressFirewall(blocked=("10.0.0.0/8",))), target=target, **packet) == "block"


def test_a_carve_out_may_open_a_port_of_the_host():
    cache = EgressFirewall(carve_outs=(CarveOut(destination="192.168.64.1/32", ports="8080"),))
    assert judged(egress_rules(cache), target="192.168.64.1", port=8080) == "pass"
    assert judged(egress_rules(cache), target="192.168.64.1", port=8081) == "block"


def test_what_is_blocked_on_the_bridge_is_answered():
    on_the_bridge = [
        line for line in egress_rules(EgressFirewall()).splitlines() if line.startswith("block") and " in " in line
    ]
    assert on_the_bridge
    assert all(line.startswith("block return in quick on bridge100 ") for line in on_the_bridge)


def test_pf_knows_icmp_of_ipv6_by_its_own_name_alone():
    with pytest.raises(RulesetError, match="unknown protocol icmp6"):
        parse("rules", "pass in quick inet6 proto icmp6 from any to any\n", lambda _: None)


@pytest.mark.parametrize("target", [own for own in OWN if ":" not in own])
@pytest.mark.parametrize("port", [22, 3283, 5900])
def test_no_machine_reaches_the_hosts_own_doors_by_any_of_its_addresses(target: str, port: int):
    everywhere = EgressFirewall(carve_outs=(CarveOut(destination="203.0.113.0/24", ports="1:65535"),))
    for firewall in (EgressFirewall(), everywhere):
        assert judged(egress_rules(firewall), target=target, port=port) == "block"
    assert judged(ingress_rules(GUARD), target=target, port=22) == "block", "nor does the guard let it in"


def test_a_forged_source_helps_no_machine():
    assert judged(egress_rules(EgressFirewall()), source="8.8.8.8", target="10.0.0.1") == "block"


@pytest.mark.parametrize(
    "packet",
    [
        {"source": "0.0.0.0", "target": "255.255.255.255", "protocol": "udp", "port": 67, "source_port": 68},
        {"target": "192.168.64.1", "protocol": "udp", "port": 67, "source_port": 68},
        {"target": "192.168.64.1", "protocol": "udp", "port": 53},
        {"target": "192.168.64.1", "protocol": "tcp", "port": 53},
        # The first of a guest's name servers is the bridge's link-local address.
        {"source": "fe80::5", "target": "fe80::1", "protocol": "udp", "port": 53},
        {"source": "fe80::5", "target": "fe80::1", "protocol": "tcp", "port": 53},
        {"source": "fe80::5", "target": "fe80::1", "protocol": "ipv6-icmp", "icmp_type": 135},
        {"way": "out", "source": "192.168.64.1", "target": "192.168.64.5", "port": 22},
        {"way": "out", "source": "192.168.64.1", "target": "192.168.64.5", "protocol": "udp", "port": 68},
    ],
)
def test_machines_keep_their_address_their_name_server_and_their_host(packet: dict[str, Any]):
    assert judged(egress_rules(EgressFirewall()), **packet) == "pass"


def test_another_name_server_in_a_private_network_is_not_reached():
    assert judged(egress_rules(EgressFirewall()), target="10.0.0.53", protocol="udp", port=53) == "block"


def test_a_carve_out_passes_on_the_bridge_and_on_the_way_out_and_opens_nothing_else():
    rules = egress_rules(CARVED)
    assert judged(rules, target="10.96.0.10", port=4001) == "pass"
    assert judged(rules, way="out", interface="en0", target="10.96.0.10", port=4000) == "pass"
    assert judged(rules, target="10.96.0.10", port=4002) == "block"
    assert judged(rules, target="10.96.0.10", port=4000, protocol="udp") == "block"


def test_what_was_not_translated_is_held_on_the_way_out():
    assert judged(egress_rules(EgressFirewall()), way="out", interface="en0", target="10.0.0.1") == "block"
    assert (
        judged(egress_rules(EgressFirewall()), way="out", interface="en0", source="203.0.113.20", target="10.0.0.1")
        == "pass"
    )


def test_every_bridge_that_is_named_is_filtered():
    rules = egress_rules(EgressFirewall(vm_interfaces=("bridge100", "bridge101")))
    for interface in ("bridge100", "bridge101"):
        assert judged(rules, interface=interface, target="10.0.0.1") == "block"
    assert judged(rules, interface="en0", target="10.0.0.1", source="203.0.113.9") == "pass", "the host's own network"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("blocked", ("10.0.0.0/33",)),
        ("blocked", ("fe80::/200",)),
        ("vm_interfaces", ()),
        ("vm_interfaces", ("bridge100 }",)),
        ("vm_sources", ("fe80::/10",)),
    ],
)
def test_a_firewall_that_pf_could_not_read_is_refused_by_name(field: str, value: Any):
    with pytest.raises(PlanError, match=field):
        EgressFirewall(**{field: value})
