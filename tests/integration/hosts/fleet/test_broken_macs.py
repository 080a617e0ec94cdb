"""Every state in which the incidents found a Mac, from claim to the end: Ready, by whatever the tiers had to do.

Everything is real but the cloud and the Macs: the controllers, the API, the scripts in a real bash.
"""

import pytest
from integration.hosts.fleet.rig import rig

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.simulator.mac import Breakage, SimulatedMac


class SpoilFirst:
    """Brings the first install of a Mac into a state; a reinstall is clean."""

    def __init__(self, kind: Breakage) -> None:
        self._kind: Breakage = kind
        self.done = False

    def __call__(self, mac: SimulatedMac) -> None:
        if not self.done:
            self.done = True
            mac.break_with(1.0, (self._kind,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("tables", set(), id="persisted pf tables are cleared by the bootstrap itself"),
        pytest.param(
            "sealed", set(), id="a sealed auto-login is written anew by the bootstrap itself", marks=pytest.mark.slow
        ),
        pytest.param("hang", {"BootstrapFailed", "RebootingForRecovery"}, id="a hanging sshd is cured by the reboot"),
        pytest.param(
            "refuse",
            {"BootstrapFailed", "RebootingForRecovery"},
            id="a dead sshd is cured by the reboot",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "timeout",
            {"BootstrapFailed", "RebootingForRecovery"},
            id="a silent sshd is cured by the reboot",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "locked",
            {"BootstrapFailed", "RebootingForRecovery"},
            id="a locked account is cured by the reboot",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "stale_keys",
            {"Reinstalling", "Reinstalled"},
            id="an earlier tenant's keys are cured by the wipe",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "no_key",
            {"Reinstalling", "Reinstalled"},
            id="a missing project key is cured by the wipe",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_mac_in_this_state_ends_ready(kind: Breakage, expected: set[str]):
    async with rig(SpoilFirst(kind)) as here:
        machine = await here.ready()
        reasons = await here.reasons()
        assert expected <= reasons
        if not expected:
            assert "BootstrapFailed" not in reasons
        host = await here.client.get(Host, machine.status.host_name, "default")
        assert host.spec.claim is not None
        assert host.spec.claim.machine_name == "mac-1"
        assert here.cloud.host(machine.status.server_id).name == "mac-1"
