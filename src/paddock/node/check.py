"""`paddock node-agent check`: proves on a Mac what no other machine can: that a VM starts, shares files and halts."""

import os
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.node.files import Files
from paddock.node.host import Host
from paddock.node.machines import Liveness, Resources, Run, Tart, TartError
from paddock.node.shares import Shares

__all__ = ["Finding", "check_mac"]

_BOOT: Final = 180.0
_HALT: Final = 90.0
_OLDEST: Final = (2, 30, 6)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried. `problem` is empty where it works; else it says what is wrong and what to do."""

    what: str
    seen: str = ""
    problem: str = ""


async def check_mac(
    tart: Tart, host: Host, files: Files, folder: Path, image: str, clock: Clock
) -> AsyncIterator[Finding]:
    """Each finding as it is made. What was made on the way is removed at the end, whatever happened."""
    try:
        version = await tart.version()
        numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
        old = numbers < _OLDEST
        yield Finding("tart", version, f"Tart {version} is too old: install 2.30.6 or newer" if old else "")
        facts = await host.facts()
        yield Finding("host", f"{facts.os_image}, machine {facts.machine_id}, boot {facts.boot_id}")
        yield Finding("session", "Aqua" if sys.platform == "darwin" else "not a Mac", await host.session_problem())
        vault = await host.filevault_problem()
        yield Finding("filevault", "on" if vault else "off", vault)
        disk = await host.disk()
        short = disk.free_share < 0.15
        yield Finding("disk", f"{disk.free_share:.0%} free", "free some space: a pull needs 15 %" if short else "")
    except (TartError, OSError) as error:
        yield Finding("host", problem=str(error))
        return
    if image:
        async for finding in _machine(tart, files, folder, image, clock):
            yield finding


async def _machine(tart: Tart, files: Files, folder: Path, image: str, clock: Clock) -> AsyncIterator[Finding]:
    name = f"paddock-check-{secrets.token_hex(4)}"
    place = folder / name
    shares = Shares(files, place)
    script = b'#!/bin/sh\ncd "${PADDOCK_SHARES:-/Volumes/My Shared Files}" && { id -u; cat env/job; } >status/log\n'
    try:
        began = clock.monotonic()
        await tart.pull(image)
        await tart.clone(image, name)
        await tart.configure(name, Resources())
        yield Finding("clone", f"{clock.monotonic() - began:.1f} s")
        await files.make_folder(folder)  # nobody else enters: the shares in it are open
        await shares.prepare({}, script, anew=True)
        word = secrets.token_hex(8)
        await shares.hand_over(Secret(word))
        began = clock.monotonic()
        await tart.run(name, Run(place, 1, shares.env, shares.status))
        command = ("/bin/zsh", "-lc", '/bin/sh "${PADDOCK_SHARES:-/Volumes/My Shared Files}/env/guest.sh"')
        problem = (
            "the guest agent did not run a command within 3 minutes: does the image have it, and log in by itself?"
        )
        while clock.monotonic() - began < _BOOT:
            try:
                if await tart.execute(name, command) == 0:
                    problem = ""
                    break
            except TartError:
                pass
            await clock.sleep(2.0)
        yield Finding("boot", f"{clock.monotonic() - began:.1f} s", problem)
        guest, _, back = (await files.read(shares.status / "log", 64) or b"").decode("ascii", "replace").partition("\n")
        users = f"the guest's user has number {guest or 'unknown'}, the agent's {os.getuid()}"
        works = back.strip() == word
        yield Finding(
            "shares", f"a word went in and came back; {users}", "" if works else f"the shares do not work; {users}"
        )
        await tart.stop(name)
        began = clock.monotonic()
        while clock.monotonic() - began < _HALT and await tart.liveness(name, place) is not Liveness.GONE:
            await clock.sleep(0.5)
        gone = await tart.liveness(name, place) is Liveness.GONE
        yield Finding("halt", f"{clock.monotonic() - began:.1f} s", "" if gone else "the VM does not end")
    except (TartError, OSError) as error:
        yield Finding("machine", problem=str(error))
    finally:
        for undo in (tart.stop, tart.delete):
            try:
                await undo(name)
            except TartError as error:
                yield Finding("clean-up", problem=str(error))
        await files.remove(place)
