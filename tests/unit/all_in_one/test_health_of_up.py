"""`/healthz` of `paddock up`: what stops claims is not well."""

from paddock.all_in_one.start import unwell
from paddock.kube.manager import HealthProbes
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import space_concern


def test_a_database_that_takes_no_writes_is_not_well_and_a_disk_that_fills_is():
    assert unwell(HealthProbes(True), []) is None
    assert unwell(HealthProbes(True), space_concern(".paddock", 1)) is None
    refused = Concern(about="database", found="it takes no writes", fix="make room", weight="stops")
    assert unwell(HealthProbes(True), [refused]) == "it takes no writes"
    assert unwell(HealthProbes(False, "not started"), [refused]) == "not started\nit takes no writes"
