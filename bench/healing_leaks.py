"""How long each kind of leak stays, beyond the grace that its proof needs: the real healing, at its real pace, on a scaled clock.

Settings are those of production. The clock runs faster than the machine's, so that half an hour can be waited for; what
the work itself takes is therefore told too large, never too small.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from paddock.base.rng import seeded
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.ledger.heals import Heal

from .leaks import Leak, Leaks
from .runner_rig import RunnerRig, at_work, runner_rig
from .scaled_clock import ScaledClock
from .scratch_postgres import scratch_postgres
from .table import Row, amount

__all__ = ["healing_leaks"]

_SETTINGS = DispatchSettings()
_LONGEST = timedelta(minutes=30)
_REPORT_EVERY = 20.0


def healing_leaks(quick: bool) -> Iterator[Row]:
    speed = 60.0 if quick else 20.0
    for leak, beyond in asyncio.run(_measure(speed)):
        what = f"heals {leak.kind}"
        if beyond is None:
            yield Row("dispatch", what, "-", "", f"{leak.how}: not healed within {_LONGEST.seconds // 60} min")
            continue
        grace = f"after {_span(leak.grace)} of grace" if leak.grace else "at once: no grace"
        yield Row("dispatch", what, amount(beyond), "s", f"{grace}; {leak.how}; a clock {speed:g}× as fast")


async def _measure(speed: float) -> list[tuple[Leak, float | None]]:
    clock = ScaledClock(speed)
    async with scratch_postgres() as server, runner_rig(server.dsn, clock, seeded(1), _SETTINGS) as rig, at_work(rig):
        leaks = Leaks(rig, _SETTINGS.healing)
        made = await leaks.all()
        reporting = asyncio.create_task(_report(rig, leaks))
        try:
            return await _healed(rig, made)
        finally:
            reporting.cancel()
            with suppress(asyncio.CancelledError):
                await reporting


async def _healed(rig: RunnerRig, made: list[Leak]) -> list[tuple[Leak, float | None]]:
    end = max(leak.since + leak.grace for leak in made) + _LONGEST
    while True:
        heals = [heal for heal in await rig.ledger.heals.newest(200) if heal.done_at is not None]
        found = [(leak, _beyond(leak, heals)) for leak in made]
        if all(beyond is not None for _, beyond in found) or rig.clock.now() > end:
            return found
        await asyncio.sleep(0.2)


def _beyond(leak: Leak, heals: list[Heal]) -> float | None:
    for heal in heals:
        if (heal.kind, heal.subject) == (leak.kind, leak.subject) and heal.done_at is not None:
            return max(0.0, (heal.done_at - leak.since - leak.grace).total_seconds())
    return None


async def _report(rig: RunnerRig, leaks: Leaks) -> None:
    """Runners that hang go on saying the same."""
    while True:
        for uid, mark in list(leaks.reporting.items()):
            await rig.ledger.progress.note(uid, mark)
        await rig.clock.sleep(_REPORT_EVERY)


def _span(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
