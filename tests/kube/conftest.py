"""The fixture `control_plane`: one real Kubernetes control plane for the whole run.

This is its only definition: a suite that lives elsewhere imports it into its own conftest
(`from kube.conftest import control_plane`), or is imported by a test module in this folder.
Importing this file is cheap: what starts the control plane is imported at the first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Starts the control plane; a failure to get or start it fails the tests, never skips them."""
    from kube.controlplane import provide_binaries, running_control_plane

    # The first build takes minutes: let its progress and its complaints reach the terminal.
    capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        binaries = provide_binaries()
    with running_control_plane(binaries) as started:
        yield started
