"""`paddock bundle-support`: one archive for a bug report, without secrets, that says of itself what is in it."""

import io
import os
import platform
import tarfile
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from paddock import __version__
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.output import as_document, as_json, say
from paddock.cli.progress import showing
from paddock.cli.redaction import redacted, redacted_text

__all__ = ["command", "written"]

_LARGEST = 20_000_000
_README = """What is in this archive
========================

Made by `paddock bundle-support` {version} at {at}.

{files}

Secrets of the cluster are not read. In everything else, fields that are called like secrets, values of environment
variables, private keys, tokens and passwords in URLs are replaced by [redacted]. Names of accounts, repositories,
machines and their addresses are kept. Look through it before you give it away.
"""


@click.command("bundle-support")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it; without it paddock-support-TIME.tar.gz in this folder.",
)
@reach_flags
def command(file: Path | None, reach: Reach) -> None:
    """Collect what a bug report needs into one redacted archive: objects, events, the ledger, metrics, the doctor's word.

    Nothing is sent anywhere.
    """
    run(_bundle(file, reach))


async def _bundle(file: Path | None, reach: Reach) -> int:
    from paddock.base.clock import SystemClock

    now = SystemClock().now()
    target = file or Path(f"paddock-support-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    async with connected(reach) as reached, showing("collecting"):
        parts = await collected(reached, reach)
    parts["about.json"] = as_json(
        {"paddock": __version__, "python": platform.python_version(), "system": platform.platform(), "at": now}
    )
    try:
        written(target, parts, now)
    except OSError as error:
        raise Problem(f"{target}: {error.strerror}: choose another place with --file") from error
    for name, text in sorted(parts.items()):
        say(f"  {len(text):>9,}  {name}")
    say(f"\nwritten to {target}, for you alone to read; look through it before you give it away")
    return 0


async def collected(reached: Reached, reach: Reach) -> dict[str, str]:
    """Every part by its file name. What cannot be read is a sentence in its place: a report is made when things are broken."""
    from dataclasses import asdict

    from paddock.cli.doctor import examined
    from paddock.cli.kinds import kinds
    from paddock.kube.builtin import Event
    from paddock.kube.errors import KubeError

    parts: dict[str, str] = {}

    async def part(name: str, read: Callable[[], Awaitable[Any]]) -> None:
        try:
            found = await read()
        except (KubeError, Problem, OSError) as error:
            found = f"could not be read: {error}"
        text = found if isinstance(found, str) else as_json(redacted(found))
        parts[name] = redacted_text(text)[:_LARGEST]

    for kind in kinds():

        async def objects(kind: Any = kind) -> Any:
            return as_document(kind.called, [kind.plain(item) for item in await kind.read(reached, "")])

        await part(f"{kind.name}.json", objects)

    async def events() -> Any:
        import msgspec

        return as_document("", [msgspec.to_builtins(event) for event in (await reached.client.list(Event)).items])

    async def doctor() -> Any:
        return as_document("Check", [asdict(check) for check in await examined(reach, [], "", os.environ)])

    async def leaks() -> Any:
        return await reached.ledger.get("leaks")

    async def metrics() -> Any:
        return await reached.ledger.text("/metrics") or ""

    async def health() -> Any:
        return await reached.ledger.text("/healthz") or ""

    for name, read in (
        ("events.json", events),
        ("doctor.json", doctor),
        ("leaks.json", leaks),
        ("metrics.txt", metrics),
        ("healthz.txt", health),
    ):
        await part(name, read)
    return parts


def written(target: Path, parts: dict[str, str], now: datetime) -> None:
    """Write the archive, readable by its owner alone; what is there already is not written over."""
    listing = "\n".join(f"  {name}" for name in sorted(parts))
    files = {"README": _README.format(version=__version__, at=f"{now:%Y-%m-%d %H:%M:%S} UTC", files=listing), **parts}
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"paddock-support/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content))
