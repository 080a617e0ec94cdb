"""What the fleet costs, and for what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from unit.hosts.made import NOW, host
from unit.web.page_fixture import page_data

from paddock.web.money import money_of
from paddock.web.page_data import PageData
from paddock.web.tiles import groups_of


def of(seen: PageData):
    return money_of(groups_of(seen), seen.hosts, seen.now)


def test_every_mac_of_ours_is_in_exactly_one_share() -> None:
    money = of(page_data(24))
    assert sum(share.macs for share in money.shares) == 24
    assert money.per_hour == pytest.approx(24 * 0.29)


def test_what_is_stranded_costs_and_does_nothing() -> None:
    money = of(PageData(now=NOW, hosts=[host("a", state="stranded", price_per_hour="0.30")]))
    assert {share.name: share.per_hour for share in money.shares if share.macs} == {"stranded": 0.30}
    assert money.useful == 0.0


def test_a_host_that_is_not_ours_or_gone_costs_us_nothing() -> None:
    hosts = [host("a", state="foreign", price_per_hour="9"), host("b", state="gone", price_per_hour="9")]
    assert of(PageData(now=NOW, hosts=hosts)).per_hour == 0.0


def test_a_price_that_is_not_known_is_said_and_not_guessed() -> None:
    assert of(PageData(now=NOW, hosts=[host("a")])).unpriced == 1


def test_the_next_mac_that_may_go_is_the_one_whose_floor_ends_first() -> None:
    hosts = [
        host("a", deletable_at=NOW + timedelta(hours=5)),
        host("b", deletable_at=NOW + timedelta(hours=2)),
        host("c"),
    ]
    money = of(PageData(now=NOW, hosts=hosts))
    assert (money.in_floor, money.next_releasable) == (2, NOW + timedelta(hours=2))
