"""What the settings say of limits is kept in the ledger, for accounts as they appear, and costs nothing when it is so."""

from integration.runners.ledger.rig import ACME, Bench

from paddock.runners.api.settings import ConfiguredLimit
from paddock.runners.ledger.configured_limits import ConfiguredLimits


async def test_a_limit_of_the_settings_is_kept_and_written_once(bench: Bench) -> None:
    limits = ConfiguredLimits(bench.ledger, [ConfiguredLimit("acme", "macos", 54, 129_024)], bench.clock)
    assert await limits.keep() == 0, "nobody has heard of the account yet"
    await bench.ledger.accounts.enrol(ACME, "acme", 7)
    assert await limits.keep() == 1
    [macos] = [usage for usage in await bench.ledger.limits.usage(ACME) if usage.platform == "macos"]
    assert (macos.vcpus, macos.memory_mb) == (54, 129_024)
    assert await limits.keep() == 0


async def test_a_limit_that_was_changed_by_hand_is_brought_back(bench: Bench) -> None:
    await bench.ledger.accounts.enrol(ACME, "acme", 7)
    limits = ConfiguredLimits(bench.ledger, [ConfiguredLimit("acme", "linux", 8, 16_384)], bench.clock)
    await limits.keep()
    await bench.ledger.limits.set(ACME, "linux", vcpus=1, memory_mb=1, by="somebody", why="in a hurry")
    assert await limits.keep() == 1
