"""A socket between the store and its database that can be cut at the worst moment."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Mode = Literal["pass", "lose request", "lose answer", "refuse", "hang"]


class Severing:
    """Passes bytes both ways until told otherwise.

    - `lose request`: the next thing the store sends never arrives, and the connection breaks;
    - `lose answer`: it arrives and is answered, but the connection breaks before the answer is through;
    - `refuse`: as `lose request`, and nobody can connect any more;
    - `hang`: nothing passes and nothing breaks.
    """

    def __init__(self, dsn: str) -> None:
        self._target = conninfo_to_dict(dsn)
        self._folder = Path(tempfile.mkdtemp(prefix="paddock-sever-"))
        self.dsn = make_conninfo(dsn, host=str(self._folder))
        self.mode: Mode = "pass"
        self.then: Mode = "pass"
        """What holds from a cut on, in the very moment of it: the store connects again within a millisecond."""
        self.cuts = 0
        self._resumed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self._folder / ".s.PGSQL.5432")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        (self._folder / ".s.PGSQL.5432").unlink(missing_ok=True)
        self._folder.rmdir()

    def resume(self) -> None:
        self.mode = "pass"
        self._resumed.set()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.mode == "refuse":
            to_client.close()
            return
        server, to_server = await asyncio.open_unix_connection(f"{self._target['host']}/.s.PGSQL.5432")
        pumps = [
            asyncio.create_task(self._pump(client, to_server, "request")),
            asyncio.create_task(self._pump(server, to_client, "answer")),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            to_client.close()
            to_server.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, what: str) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if self.mode == "hang":
                    self._resumed.clear()
                    await self._resumed.wait()
                if self.mode == f"lose {what}" or (self.mode == "refuse" and what == "request"):
                    self.cuts += 1
                    if self.mode != "refuse":
                        self.mode = self.then
                    return
                sink.write(data)
                await sink.drain()
