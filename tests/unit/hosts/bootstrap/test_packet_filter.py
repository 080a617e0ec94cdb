import pytest
from unit.hosts.bootstrap.fleets import GUARD

from paddock.hosts.bootstrap import CarveOut, EgressFirewall
from paddock.hosts.bootstrap.packet_filter import egress_rules, guard_is_safe, ingress_rules


def test_exceptions_stand_before_what_they_are_exceptions_from():
    firewall = EgressFirewall(carve_outs=(CarveOut(destination="10.96.0.10/32", ports="53", protocols=("tcp", "udp")),))
    lines = egress_rules(firewall).splitlines()
    passes = [index for index, line in enumerate(lines) if line.startswith("pass")]
    blocks = [index for index, line in enumerate(lines) if line.startswith("block")]
    assert len(passes) == 2
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
