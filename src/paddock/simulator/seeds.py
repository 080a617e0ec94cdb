"""Run a test once for each of a number of seeds."""

import functools
import inspect
import os
import shlex
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from paddock.simulator.loop import DAY
from paddock.simulator.process import World, simulate

__all__ = ["chosen_seeds", "simulated"]

_SUPPLIED = ("seed", "world")


def chosen_seeds(seeds: int | Iterable[int]) -> list[int]:
    """The seeds to run: those asked for, widened to `PADDOCK_SIM_SEEDS=n`, cut to `PADDOCK_SIM_AT_MOST=n`, or only
    `PADDOCK_SIM_SEED=k`.
    """
    if (one := _number("PADDOCK_SIM_SEED")) is not None:
        return [one]
    wanted = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if most := _number("PADDOCK_SIM_AT_MOST"):
        wanted = wanted[:most]
    more = _number("PADDOCK_SIM_SEEDS") or 0
    known = set(wanted)
    return wanted + [seed for seed in range(more) if seed not in known][: max(0, more - len(wanted))]


def _number(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {text!r}") from None


def simulated(
    seeds: int | Iterable[int] = 10, *, limit: float = DAY
) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., None]]:
    """Turn an async test into one that runs in virtual time, once for each seed.

    The test may ask for `world` and `seed`; every other parameter is a fixture of pytest, shared by all seeds. The first
    seed that fails ends the test, and a note on the error says how to run that seed alone.
    """
    asked = seeds if isinstance(seeds, int) else list(seeds)

    def decorate(test: Callable[..., Awaitable[object]]) -> Callable[..., None]:
        signature = inspect.signature(test)
        supplied = [name for name in _SUPPLIED if name in signature.parameters]

        @functools.wraps(test)
        def run_all(*args: Any, **fixtures: Any) -> None:
            run = chosen_seeds(asked)
            for passed, seed in enumerate(run):

                async def scenario(world: World, seed: int = seed) -> None:
                    ours = {name: {"seed": seed, "world": world}[name] for name in supplied}
                    await test(*args, **fixtures, **ours)

                try:
                    simulate(scenario, seed=seed, limit=limit)
                except BaseException as error:
                    error.add_note(
                        f"{passed} of {len(run)} seeds passed before; to run this one alone:\n{_again(seed)}"
                    )
                    raise

        visible = [each for name, each in signature.parameters.items() if name not in supplied]
        run_all.__dict__["__signature__"] = signature.replace(parameters=visible, return_annotation=None)
        return run_all

    return decorate


def _again(seed: int) -> str:
    current = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0]
    return f"    PADDOCK_SIM_SEED={seed} pytest {shlex.quote(current)}".rstrip()
