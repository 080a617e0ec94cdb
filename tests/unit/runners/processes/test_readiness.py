"""When requests may come to a dispatch process: caches always, the store within the first minute only."""

import pytest

from paddock.runners.http.concern import Concern
from paddock.runners.processes.readiness import READY_WITHOUT_STORE_AFTER, liveness, readiness


@pytest.mark.parametrize(
    ("stopping", "caches", "unopened", "alive_for", "ok", "text"),
    [
        (False, [], False, 0.0, True, "ok"),
        (False, ["nodes: refused"], False, 300.0, False, "nodes: refused"),
        (False, [], True, 0.0, False, "ready without it in 60 s"),
        (False, [], True, 59.0, False, "ready without it in 1 s"),
        (False, [], True, 60.0, True, "without the ledger"),
        (False, ["nodes: refused"], True, 300.0, False, "nodes: refused"),
        (True, [], False, 300.0, False, "stopping"),
        (True, [], True, 300.0, False, "stopping"),
    ],
)
def test_it_waits_for_its_caches_and_a_minute_at_most_for_its_store(
    stopping: bool, caches: list[str], unopened: bool, alive_for: float, ok: bool, text: str
):
    probe = readiness(stopping=stopping, caches=caches, unopened=unopened, alive_for=alive_for)
    assert probe.ok is ok
    assert text in probe.text


def test_that_minute_is_one():
    assert READY_WITHOUT_STORE_AFTER == 60.0


def test_no_concern_is_a_reason_to_start_the_process_again():
    stops = Concern(about="database", found="it does not answer", fix="see why", weight="stops")
    assert liveness([stops]).ok
    assert liveness([stops]).text == "it does not answer"
    assert liveness([Concern(about="disk", found="little is left", weight="soon")]).text == "ok"
