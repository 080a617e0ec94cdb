"""The rules of our pf anchors, as texts.  (pure)

The first rule that says `quick` and fits decides, so exceptions stand before what they are exceptions from. Tables are
never `persist`: such a table outlives the rules, and the next load fails with "Resource busy".
"""

import ipaddress
from collections.abc import Iterable

from paddock.hosts.bootstrap.plan import EgressFirewall, IngressGuard

__all__ = ["NotSafe", "egress_rules", "guard_is_safe", "ingress_rules"]


def egress_rules(firewall: EgressFirewall) -> str:
    """What leaves virtual machines: carve-outs pass, blocked networks and the metadata address do not."""
    lines = [
        "# Virtual machines of this host may not reach these networks. Written by Paddock.",
        f"table <vm_sources> {{ {', '.join(firewall.vm_sources)} }}",
        f"table <blocked_dst> {{ {', '.join(firewall.blocked)} }}",
    ]
    for hole in firewall.carve_outs:
        lines += [
            f"pass out quick proto {protocol} from <vm_sources> to {hole.destination} port {hole.ports}"
            for protocol in hole.protocols
        ]
    lines += [
        "block drop out quick from <vm_sources> to <blocked_dst>",
        "block drop out quick from <vm_sources> to 169.254.169.254",
    ]
    return "\n".join(lines)


def ingress_rules(guard: IngressGuard) -> str:
    """Who reaches SSH: the host itself, the allow list and the second path; and nobody else.

    What virtual machines send to other hosts comes *in* on their bridge, so it must pass here, except to each other.
    """
    allowed = dict.fromkeys((guard.second_path, *guard.allow))
    return "\n".join(
        (
            "# Who may reach SSH on this host. Written by Paddock.",
            f"table <ssh_allowed> {{ {', '.join(allowed)} }}",
            f"table <vm_ssh_sources> {{ {', '.join(guard.vm_sources)} }}",
            "pass in quick on lo0 proto tcp to any port 22",
            "pass in quick proto tcp from <ssh_allowed> to any port 22",
            "block drop in quick proto tcp from <vm_ssh_sources> to <vm_ssh_sources> port 22",
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
