"""The embedded API alone, in a process of its own: Postgres below, HTTPS above. Runs until its input ends."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.base.http_server import Tls, bind, listening
from paddock.base.rng import unseeded
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.embedded.folder import DataFolder
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.store.postgres import PostgresStore


async def main(root: Path) -> None:
    clock, rng, folder = SystemClock(), unseeded(), DataFolder(root)
    folder.make()
    certificates = Certificates.ensure(folder.certificates, clock.now())
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedPostgres(folder.postgres, clock=clock, rng=rng))
        store = await stack.enter_async_context(await PostgresStore.open(server.dsn, clock=clock, rng=rng))
        plane = ControlPlane(
            store,
            clock,
            rng,
            admin_token=folder.admin_token(),
            signing_key=folder.signing_key(),
            definitions=our_definitions(),
        )
        sock = bind(0, "port")
        url = f"https://127.0.0.1:{sock.getsockname()[1]}"
        await stack.enter_async_context(listening(plane.app, sock, Tls(certificates.certificate, certificates.key)))
        await stack.enter_async_context(plane.running())
        authority = certificates.authority.read_text(encoding="utf-8")
        print(json.dumps({"url": url, "authority": authority, "token": folder.admin_token().reveal()}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
