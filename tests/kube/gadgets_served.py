"""The conformance suite's own kind on the real server, for as long as a `with` block lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conformance import gadgets
from conformance.target import GROUP

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane


@contextmanager
def serving_gadgets(control_plane: ControlPlane) -> Iterator[None]:
    """The test kind, served: the route appears a moment after the condition says so, and documents later still."""
    path = f"{gadgets.DEFINITIONS}/{gadgets.NAME}"
    deadline = time.perf_counter() + 60.0
    with control_plane.client() as http:
        while not http.post(gadgets.DEFINITIONS, json=gadgets.definition()).is_success:
            # Another suite of this run has just deleted it, and the end takes a moment.
            assert time.perf_counter() < deadline, "the real server did not take the definition of the test kind"
            time.sleep(0.1)
        while not (
            gadgets.is_established(http.get(path).json())
            and http.get(f"/apis/{GROUP}/v1/gadgets").is_success
            and http.get(f"/openapi/v3/apis/{GROUP}/v1").is_success
        ):
            assert time.perf_counter() < deadline, "the real server did not begin to serve the test kind"
            time.sleep(0.1)
        yield
        http.delete(path).raise_for_status()
