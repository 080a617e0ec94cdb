"""What a loaded ruleset does with a packet: the first `quick` rule that fits decides; what no rule fits passes.

The grammar is the part of pf.conf(5) that our anchors use; a rule in another form is an error, so that none is believed
to protect anybody without having been read.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Packet", "verdict"]

_RULE = re.compile(
    r"^(?P<action>pass|block(?: drop| return)?) (?P<way>in|out) quick"
    r"(?: on (?P<on>\{[^}]*\}|\S+))?(?: (?P<family>inet6?))?(?: proto (?P<proto>\{[^}]*\}|\S+))?"
    r"(?: from (?P<source>\{[^}]*\}|\S+)(?: port (?P<source_port>\{[^}]*\}|\S+))?)?"
    r"(?: to (?P<target>\{[^}]*\}|\S+)(?: port (?P<port>\{[^}]*\}|\S+))?)?"
    r"(?: icmp6-type (?P<icmp>\{[^}]*\}|\S+))?(?: keep state)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """The first packet of a connection, as one interface sees it."""

    way: str
    interface: str
    source: str
    target: str
    protocol: str = "tcp"
    port: int = 0
    source_port: int = 0
    icmp_type: int = 0


def verdict(rules: Iterable[str], tables: Mapping[str, Iterable[str]], packet: Packet, own: Iterable[str] = ()) -> str:
    """The rule that decides, or an empty text. `own` are the host's addresses, which pf calls `self`."""
    for rule in rules:
        form = _RULE.match(rule)
        if form is None:
            raise ValueError(f"the simulated packet filter cannot judge this rule: {rule}")
        version = "inet6" if ipaddress.ip_address(packet.target).version == 6 else "inet"
        if (
            form["way"] == packet.way
            and (form["on"] is None or packet.interface in _words(form["on"]))
            and form["family"] in {None, version}
            and (form["proto"] is None or packet.protocol in _words(form["proto"]))
            and _holds(form["source"], packet.source, tables, own)
            and _fits(form["source_port"], packet.source_port)
            and _holds(form["target"], packet.target, tables, own)
            and _fits(form["port"], packet.port)
            and _fits(form["icmp"], packet.icmp_type)
        ):
            return rule
    return ""


def _words(text: str) -> list[str]:
    return re.split(r"[,\s]+", text.strip("{} "))


def _holds(wanted: str | None, address: str, tables: Mapping[str, Iterable[str]], own: Iterable[str]) -> bool:
    if wanted is None or wanted == "any":
        return True
    place = ipaddress.ip_address(address)
    for word in _words(wanted):
        networks = own if word == "self" else tables[word.strip("<>")] if word.startswith("<") else (word,)
        if any(place in ipaddress.ip_network(network) for network in networks):
            return True
    return False


def _fits(wanted: str | None, number: int) -> bool:
    if wanted is None:
        return True
    spans = (word.partition(":") for word in _words(wanted))
    return any(int(low) <= number <= int(high or low) for low, _, high in spans)
