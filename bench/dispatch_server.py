"""The dispatch service alone, in a process of its own: Postgres and cluster below, HTTP above. Runs until its input ends.

Prints one line of JSON when it serves; the Pods' tokens are in a file, because there may be ten thousand of them.
"""

import asyncio
import json
import random
import resource
import sys
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from paddock.base import logs
from paddock.base.clock import Clock, SystemClock
from paddock.base.event_loop import run_measured
from paddock.base.http_server import bind, listening
from paddock.base.rng import seeded
from paddock.kube.builtin import Pod
from paddock.runners.api import OWNER_LABEL
from paddock.runners.api.settings import DispatchSettings

from .runner_rig import NAMESPACE, at_work, runner_rig
from .scratch_postgres import scratch_postgres

__all__ = ["allow_many_sockets"]


def allow_many_sockets() -> int:
    """As many as this machine lets us have; gives how many that are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


async def main(folder: Path, pods: int) -> None:
    clock, rng = SystemClock(), seeded(1)
    await _serve(folder, pods, clock, rng)


async def _serve(folder: Path, pods: int, clock: Clock, rng: random.Random) -> None:
    async with (
        scratch_postgres() as server,
        runner_rig(server.dsn, clock, rng, DispatchSettings()) as rig,
    ):
        tokens = await rig.pods(pods, rng=rng)
        (folder / "tokens").write_text("\n".join(tokens), encoding="utf-8")

        async def waiting(_: Request) -> Response:
            return JSONResponse({"waiting": len(rig.service.dispatch.waiting), "token_reviews": rig.wire.token_reviews})

        async def assigned(_: Request) -> Response:
            pods = (await rig.client.list(Pod, NAMESPACE, label_selector=OWNER_LABEL)).items
            return JSONResponse({"stamped": len(pods)})

        sock = bind(0, "port")
        app = Starlette(
            routes=[*rig.service.routes, Route("/bench/waiting", waiting), Route("/bench/stamped", assigned)]
        )
        async with listening(app, sock), at_work(rig):
            print(json.dumps({"port": sock.getsockname()[1], "dsn": server.dsn}), flush=True)
            await asyncio.to_thread(sys.stdin.read)
            await rig.service.stop()


if __name__ == "__main__":
    logs.set_up(level="error")
    run_measured(main(Path(sys.argv[1]), int(sys.argv[2])))
