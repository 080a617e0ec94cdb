"""A page, and an API behind TLS, in one process that may open few files. Prints their ports; runs until its input ends."""

import asyncio
import json
import resource
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddock.base.connection_limits import ConnectionLimits
from paddock.base.http_server import Tls, bind, listening
from paddock.embedded.certificates import Certificates

__all__: list[str] = []


async def app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def main(folder: Path, handshake_seconds: float) -> None:
    made = Certificates.ensure(folder, datetime.now(UTC))
    page, api = bind(0, "--port"), bind(0, "--kube-port")
    limits = ConnectionLimits(handshake_seconds=handshake_seconds)
    async with listening(app, page), listening(app, api, Tls(made.certificate, made.key), limits):
        print(json.dumps([page.getsockname()[1], api.getsockname()[1]]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    files = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[3])))
