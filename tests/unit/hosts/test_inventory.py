"""The status that a Host gets from what the cloud shows."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace
from unit.hosts.made import NOW, later, server

from paddock.clients.scaleway import Price
from paddock.hosts.api import HostHistory, HostStatus
from paddock.hosts.controllers.inventory import observed
from paddock.hosts.orphans import HostState, Verdict, VerdictReason
from paddock.kube.conditions import get_condition
from paddock.kube.difference import merge_difference

FREE = Verdict(HostState.POOLED, VerdictReason.FREE, "free, and ready to be claimed")
PRICE = Price("M2-L", "EUR", Decimal("0.21"))


def status(before: HostStatus | None = None, verdict: Verdict = FREE, now: Any = NOW, **shown: Any) -> HostStatus:
    return observed(server(**shown), before or HostStatus(), verdict, PRICE, now)


def test_what_the_cloud_shows_is_mirrored():
    seen = status(deletable_at=later(hours=5))
    assert (seen.state, seen.cloud_status, seen.type, seen.ip) == ("pooled", "ready", "M2-L", "198.18.0.1")
    assert (seen.os.family, seen.price_per_hour, seen.currency) == ("Tahoe", "0.21", "EUR")
    assert seen.deletable_at == later(hours=5)


def test_looking_twice_at_the_same_thing_writes_nothing():
    first = status()
    assert merge_difference(first, status(first, now=later(hours=1))) == {}


def test_before_delivery_the_billing_floor_is_not_known():
    assert status(delivered=False, deletable_at=NOW).deletable_at is None


def test_the_reason_and_the_message_are_those_of_the_verdict():
    orphaned = status(verdict=Verdict(HostState.ORPHANED, VerdictReason.NO_OWNER, "it bills, and does nothing"))
    ready = get_condition(orphaned.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "NoOwner", "it bills, and does nothing")


def test_history_and_the_pinned_key_are_kept_whatever_the_cloud_shows():
    before = HostStatus(host_key="SHA256:x", history=HostHistory(releases=3))
    seen = status(before)
    assert seen.host_key == "SHA256:x"
    assert seen.history.releases == 3


def test_a_price_that_could_not_be_read_keeps_the_last_one():
    before = replace(status(), price_per_hour="0.20")
    assert observed(server(), before, FREE, None, NOW).price_per_hour == "0.20"


def test_a_server_without_an_image_or_an_address_is_mirrored_as_such():
    seen = status(os=None, ip="")
    assert seen.os.family == ""
    assert seen.ip == ""


def test_a_host_that_is_not_ours_keeps_its_key_only_while_it_lies_in_the_pool():
    """Another cluster of the project may wipe it, and the new install shows another key."""
    before = HostStatus(host_key="SHA256:x")
    foreign = Verdict(HostState.FOREIGN, VerdictReason.FREE, "another cluster's")
    keys = {
        (verdict.state, shown, ours): observed(server(status=shown), before, verdict, PRICE, NOW, ours=ours).host_key
        for verdict in (FREE, foreign)
        for shown in ("ready", "reinstalling")
        for ours in (True, False)
    }
    forgotten = {case for case, key in keys.items() if not key}
    assert forgotten == {
        (HostState.POOLED, "reinstalling", False),
        (HostState.FOREIGN, "ready", False),
        (HostState.FOREIGN, "reinstalling", False),
    }
