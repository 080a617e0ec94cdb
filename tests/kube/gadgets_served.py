"""The conformance suite's own kind on the real server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conformance import gadgets
from conformance.target import GROUP

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

SERVED_WITHIN = 180.0


def serve_gadgets(control_plane: ControlPlane) -> None:
    """Define the kind, if no other suite of this run has, and wait until it is served.

    The route appears a moment after the condition says so, and its documents later still. The kind stays for as long as
    the control plane does: what a failed case left behind could hold its end up.
    """
    deadline = time.perf_counter() + SERVED_WITHIN
    with control_plane.client() as http:
        defined = http.post(gadgets.DEFINITIONS, json=gadgets.definition())
        assert defined.status_code in {201, 409}, defined.text
        while not (
            gadgets.is_established(http.get(f"{gadgets.DEFINITIONS}/{gadgets.NAME}").json())
            and http.get(f"/apis/{GROUP}/v1/gadgets").is_success
            and http.get(f"/openapi/v3/apis/{GROUP}/v1").is_success
        ):
            assert time.perf_counter() < deadline, "the real server did not begin to serve the test kind"
            time.sleep(0.1)
