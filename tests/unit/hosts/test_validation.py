"""What a spec gets wrong is said with what to write instead."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    POOL,
    SERVER_ID,
    host,
    machine,
)

from paddock.hosts.validation import KNOWN_ZONES, BadInput, bad_input, ignored_change
from paddock.hosts.verify import server_zone


class TestBadInput:
    def judged(self, of: Any = None, prefix: str = POOL, types: Any = None) -> BadInput | None:
        return bad_input(of or machine(), prefix, zones=KNOWN_ZONES, types=types)

    def test_a_good_machine_has_nothing_wrong(self):
        assert self.judged() is None
        assert self.judged(types={"M2-L", "M4-S"}) is None

    @pytest.mark.parametrize(
        ("wrong", "prefix", "reason", "remedy"),
        [
            (machine("m" * 64), POOL, "NameTooLong", "63"),
            (machine("tuist-pool-mine"), POOL, "NameReserved", "another name"),
            (machine("tuist-claim-pending-mine"), POOL, "NameReserved", "another name"),
            (machine(spec={"zone": "mars-1"}), POOL, "UnknownZone", "fr-par-1"),
            (machine(spec={"os": "macos-tahoe-26.3"}), POOL, "InvalidOSPin", "'Tahoe'"),
            (machine(spec={"os": "26.3"}), POOL, "InvalidOSPin", "Tahoe"),
            (machine(spec={"type": "M9-Q"}), POOL, "UnknownType", "M2-L, M4-S"),
            (machine(), "NoDash", "InvalidPoolPrefix", "tuist-pool-"),
            (machine(), "", "NoAdoptPoolPrefix", "--default-adopt-pool-prefix"),
        ],
    )
    def test_what_no_retry_can_mend_is_refused_with_what_to_write_instead(
        self, wrong: Any, prefix: str, reason: str, remedy: str
    ):
        judged = self.judged(wrong, prefix, types={"M2-L", "M4-S"})
        assert judged is not None
        assert judged.reason == reason
        assert remedy in judged.message

    def test_a_name_of_exactly_the_longest_length_is_fine(self):
        assert self.judged(machine("m" * 63)) is None

    def test_an_unknown_type_is_not_refused_while_the_types_are_not_known(self):
        assert self.judged(machine(spec={"type": "M9-Q"}), types=None) is None

    def test_a_machine_that_orders_its_own_host_needs_no_pool(self):
        assert self.judged(machine(spec={"source": "Order"}), prefix="") is None

    @given(name=st.text(max_size=80), zone=st.text(max_size=12), os=st.text(max_size=20), prefix=st.text(max_size=30))
    def test_no_input_is_too_strange_to_be_judged(self, name: str, zone: str, os: str, prefix: str):
        judged = self.judged(machine(name, spec={"zone": zone, "os": os}), prefix)
        assert judged is None or (judged.reason and judged.message)


class TestIgnoredChange:
    def test_a_machine_that_fits_its_host_says_nothing(self):
        assert ignored_change(machine(), host(type="M2-L")) == ""

    def test_a_type_that_is_not_known_yet_is_no_difference(self):
        assert ignored_change(machine(), host(type="")) == ""

    def test_a_bound_machine_cannot_be_moved_by_its_spec(self):
        said = ignored_change(machine(spec={"zone": "mars-1", "type": "M9"}), host(type="M2-L"))
        assert said.startswith("spec.zone 'mars-1' (it is fr-par-1) and spec.type 'M9' (it is M2-L) is ignored")


def test_a_server_is_looked_for_where_it_is_and_not_where_the_spec_has_come_to_point():
    bound = {"zone": "mars-1", "provider_id": f"scw-applesilicon://fr-par-3/{SERVER_ID}"}
    assert server_zone(machine(spec=bound, server_id=SERVER_ID)) == "fr-par-3"
    assert server_zone(machine(spec={"zone": "fr-par-1"}, server_id=SERVER_ID)) == "fr-par-1"
    assert server_zone(machine(spec=bound)) == "mars-1"
