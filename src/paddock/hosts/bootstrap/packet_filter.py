"""The rules of our pf anchors, as texts.  (pure)

The first rule that says `quick` and fits decides, so exceptions stand before what they are exceptions from. Tables are
never `persist`: such a table outlives the rules, and the next load fails with "Resource busy".
"""

import ipaddress
from collections.abc import Iterable

from paddock.hosts.bootstrap.plan import EgressFirewall, IngressGuard

__all__ = ["NotSafe", "egress_rules", "guard_is_safe", "ingress_rules"]


_HOST_PORTS = "{ 22, 3283, 5900 }"  # SSH, Remote Management, Screen Sharing
_NEIGHBOURS = "{ 133, 135, 136 }"  # router solicitation, neighbour solicitation and advertisement


def egress_rules(firewall: EgressFirewall) -> str:
    """What virtual machines send: carve-outs pass, blocked networks, the metadata address and the host itself do not; no
    carve-out opens the host's own doors.

    pf sees what leaves the host after its address was translated, so the rules stand where the packet comes in: on the
    bridge. What the machines need to have an address and a name server passes there: the first name server of their list is
    the bridge's own link-local address. What is blocked there is answered, so that nobody waits for a time-out. Connections that the host opens to
    its machines pass with their answers, because the answers go to a private address. The rules for what goes out on
    other interfaces stay as a second net: they hold what was not translated.
    """
    bridges = _listed(firewall.vm_interfaces)
    lines = [
        "# Virtual machines of this host may not reach these networks. Written by Paddock.",
        f"table <vm_sources> {{ {', '.join(firewall.vm_sources)} }}",
        f"table <blocked_dst> {{ {', '.join(firewall.blocked)} }}",
        f"pass out quick on {bridges} from any to <vm_sources> keep state",
        f"pass in quick on {bridges} inet proto udp from any port 68 to any port 67",
        f"pass in quick on {bridges} inet proto {{ tcp, udp }} from any to <vm_sources> port 53",
        f"pass in quick on {bridges} inet6 proto {{ tcp, udp }} from any to fe80::/10 port 53",
        f"pass in quick on {bridges} inet6 proto ipv6-icmp from any to any icmp6-type {_NEIGHBOURS}",
        f"block return in quick on {bridges} proto tcp from any to self port {_HOST_PORTS}",
    ]
    for hole in firewall.carve_outs:
        for protocol in hole.protocols:
            where = f"to {hole.destination} port {hole.ports}"
            lines += [
                f"pass in quick on {bridges} proto {protocol} from any {where}",
                f"pass out quick proto {protocol} from <vm_sources> {where}",
            ]
    lines += [
        f"block return in quick on {bridges} from any to self",
        f"block return in quick on {bridges} from any to <blocked_dst>",
        f"block return in quick on {bridges} from any to 169.254.169.254",
    ]
    lines += [
        # What the host itself sends to its machines comes from an address among theirs: it has passed above.
        "block drop out quick from <vm_sources> to <blocked_dst>",
        "block drop out quick from <vm_sources> to 169.254.169.254",
    ]
    return "\n".join(lines)


def _listed(words: Iterable[str]) -> str:
    several = tuple(words)
    return several[0] if len(several) == 1 else f"{{ {', '.join(several)} }}"


def ingress_rules(guard: IngressGuard) -> str:
    """Who reaches SSH: the host itself, the allow list and the second path; and no other address.

    What virtual machines send to other hosts comes *in* on their bridge, so it must pass here, except to each other and to
    this host, whichever of its addresses they name.
    """
    allowed = dict.fromkeys((guard.second_path, *guard.allow))
    return "\n".join(
        (
            "# Who may reach SSH on this host. Written by Paddock.",
            f"table <ssh_allowed> {{ {', '.join(allowed)} }}",
            f"table <vm_ssh_sources> {{ {', '.join(guard.vm_sources)} }}",
            "pass in quick on lo0 proto tcp to any port 22",
            "pass in quick proto tcp from <ssh_allowed> to any port 22",
            "block drop in quick proto tcp from <vm_ssh_sources> to { self, <vm_ssh_sources> } port 22",
            "pass in quick proto tcp from <vm_ssh_sources> to any port 22",
            "block drop in quick proto tcp from any to any port 22",
        )
    )


class NotSafe(str):
    """Why the guard is not installed on this host, as a sentence."""

    __slots__ = ()


def guard_is_safe(guard: IngressGuard, peer: str, addresses: Iterable[str]) -> NotSafe | None:
    """None where the guard can be installed without locking us out; otherwise why not.

    Both must hold: this very session would still get in, and the host has an address on the second path. A mistake here
    is the fleet's and not the host's, so it is said and the guard is left out; failing would have hosts wiped for it.
    """
    allowed = [ipaddress.IPv4Network(network) for network in (guard.second_path, *guard.allow)]
    try:
        source = ipaddress.ip_address(peer)
    except ValueError:
        return NotSafe("it is not known where this session comes from")
    if not any(source in network for network in allowed):
        return NotSafe(f"this session comes from {peer}, which the allow list does not cover: add it to allow")
    second = ipaddress.IPv4Network(guard.second_path)
    if not any(ipaddress.ip_address(address) in second for address in addresses if _is_address(address)):
        return NotSafe(f"the host has no address in {guard.second_path}, so there would be no second way in")
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
