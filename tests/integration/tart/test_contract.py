"""The client and the stand-in, held against Tart's own source: `tests/contract` has its commands, options and exit codes."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.tart.conftest import IMAGE, TartHome

from paddock.node.machines import Resources, Run, VmMissingError, VmRunningError
from paddock.node.tart_process import TartProcess
from paddock.simulator.tart_program import commands

CONTRACT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "contract" / "tart-2.35.0.json").read_text())


def test_the_stand_in_is_of_the_version_of_the_contract():
    assert CONTRACT["tart"] == commands.VERSION


@pytest.mark.parametrize("verb", sorted(commands._OPTIONS))
def test_the_stand_in_has_exactly_the_options_of_each_of_its_commands(verb: str):
    ours = {name: count for name, count in commands._OPTIONS[verb].items() if name != "-it"}
    assert ours == CONTRACT["commands"][verb]["options"]


class _Called:
    """A `tart` that writes down how it is called."""

    def __init__(self, folder: Path) -> None:
        self.program, self.calls = folder / "tart", folder / "calls"
        self.program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>"{self.calls}"\n[ "$1" != list ] || echo "[]"\n')
        self.program.chmod(0o755)

    def words(self) -> Iterator[list[str]]:
        for line in self.calls.read_text().splitlines():
            yield line.split()


async def test_the_client_uses_only_options_that_tart_has(tmp_path: Path):
    called, folder = _Called(tmp_path), tmp_path / "journal"
    run = Run(folder, 1, folder / "env", folder / "status")
    for path in (run.env, run.status):
        path.mkdir(parents=True)
    tart = TartProcess(called.program, tmp_path / "home", softnet=Path("/opt/softnet"))
    await tart.machines()
    await tart.pull(IMAGE)
    await tart.clone(IMAGE, "vm-1")
    await tart.configure("vm-1", Resources(4, 8192))
    await tart.run("vm-1", run)
    await tart.execute("vm-1", ("true",))
    await tart.stop("vm-1")
    await tart.delete("vm-1")
    seen: set[str] = set()
    for verb, *words in called.words():
        seen.add(verb)
        options = [word for word in words if word.startswith("-")]
        assert set(options) <= set(CONTRACT["commands"][verb]["options"]), verb
    assert {"list", "pull", "clone", "set", "exec", "stop", "delete"} <= seen


async def test_a_download_grows_in_the_clients_eyes_and_what_was_killed_goes_on(tart: TartHome):
    tart.world(images={IMAGE: {"seconds": 3.0, "size": 20.0}})
    process = TartProcess(tart.program, tart.home, environ=tart.environment)
    began = time.monotonic()
    pull = asyncio.create_task(process.pull(IMAGE))
    sizes: list[int] = []
    while len(set(sizes)) < 5:
        assert time.monotonic() - began < 60
        await asyncio.sleep(0.1)
        sizes += [each.here for each in (await process.downloads()).values()]
    assert sizes == sorted(sizes)
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    (left,) = (await process.downloads()).values()
    assert left.here >= sizes[-1]
    again = asyncio.create_task(process.pull(IMAGE))
    await asyncio.sleep(0.5)
    (now,) = (await process.downloads()).values()
    assert now.here >= left.here, "it began at zero"
    await again
    assert await process.downloads() == {}
    assert [vm.name for vm in await process.machines()]


async def test_errors_are_known_by_their_code_whatever_the_text_names(tart: TartHome):
    process = TartProcess(tart.program, tart.home, environ=tart.environment)
    tart.up("vm-1")
    with pytest.raises(VmRunningError):
        await process.delete("vm-1")
    with pytest.raises(VmMissingError):
        await process.clone("is running", "vm-2")
