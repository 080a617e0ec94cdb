import pytest

from paddock.clients.ssh import AsyncSsh, KeyPair, new_key_pair
from paddock.simulator.mac import MacSettings, Pace, SimulatedMac


@pytest.fixture(scope="session")
def key() -> KeyPair:
    return new_key_pair("fleet")


@pytest.fixture
async def mac(key):
    async with SimulatedMac(settings=MacSettings(keys=[key.public], pace=Pace(speed=1000.0))) as mac:
        yield mac


@pytest.fixture(params=["over the wire", "in the process"])
def ssh(request, mac):
    """Both clients keep one contract, so most tests hold for both."""
    return AsyncSsh() if request.param == "over the wire" else mac.ssh()


@pytest.fixture
async def shell(ssh, mac, key):
    async with ssh.connect(mac.target(key.private)) as shell:
        yield shell


@pytest.fixture
async def direct(mac, key):
    """A shell without a wire, where the wire is not the point."""
    async with mac.ssh().connect(mac.target(key.private)) as shell:
        yield shell


@pytest.fixture
async def root(mac, direct):
    """Runs a script on a Mac that has passwordless sudo already, and returns how it ended."""
    mac.write("/etc/sudoers.d/m1-nopasswd", "m1 ALL=(ALL) NOPASSWD: ALL\n", mode=0o440)

    async def run(script: str, *arguments: str, check: bool = False):
        done = await direct.run(script, arguments=arguments, timeout=20)
        return done.check() if check else done

    return run
