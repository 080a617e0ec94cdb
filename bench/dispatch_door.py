"""The dispatch service seen from outside: started in a process of its own, asked by Pods, told by GitHub.

Every Pod has a connection of its own, as in life. The client is as lean as it can be, and runs in another process than
the service; both share the machine's cores.
"""

import asyncio
import hashlib
import hmac
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import psutil

from paddock.clients.dispatch import LONGEST_HOLD

from .dispatch_server import allow_many_sockets
from .runner_rig import ACCOUNTS, LABEL, WEBHOOK_SECRET
from .scratch_postgres import scratch_folder

__all__ = ["Asker", "DispatchDoor", "Spent", "dispatch_service", "seconds_of", "webhook"]

_ROOT = Path(__file__).resolve().parent.parent
_OPENED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class DispatchDoor:
    port: int
    dsn: str
    pid: int
    tokens: list[str]

    async def state(self, what: str = "waiting") -> dict[str, int]:
        asker = await Asker.open(self)
        _, body = await asker.ask("GET", f"/bench/{what}", "")
        asker.close()
        return json.loads(body)

    async def all_wait(self, count: int) -> None:
        """Until they do: of many, one in a hundred may be between two requests at any moment."""
        async with asyncio.timeout(120):
            while (await self.state())["waiting"] < count - count // 100:
                await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of CPU so far: by the service, by its Postgres and by this process."""

    service: float
    postgres: float
    client: float

    @classmethod
    def by(cls, door: DispatchDoor) -> "Spent":
        service = psutil.Process(door.pid)
        children = [child for child in service.children(recursive=True) if child.name() == "postgres"]
        return cls(seconds_of(service), sum(map(seconds_of, children)), process_time())

    def since(self, before: "Spent") -> "Spent":
        return Spent(self.service - before.service, self.postgres - before.postgres, self.client - before.client)


def seconds_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # a backend that ended; what it used is lost to us
    return times.user + times.system


@contextmanager
def dispatch_service(pods: int) -> Iterator[DispatchDoor]:
    allow_many_sockets()
    folder = scratch_folder()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.dispatch_server", str(folder), str(pods)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        tokens = (folder / "tokens").read_text(encoding="utf-8").splitlines()
        yield DispatchDoor(told["port"], told["dsn"], process.pid, tokens)
    finally:
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        shutil.rmtree(folder)


class Asker:
    """One kept-alive connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, door: DispatchDoor) -> "Asker":
        return cls(*await asyncio.open_connection("127.0.0.1", door.port, limit=65_536))

    @classmethod
    async def open_many(cls, door: DispatchDoor, count: int) -> list["Asker"]:
        """Some at a time, so that none is refused for want of room in the listener's queue."""
        found: list[Asker] = []
        while len(found) < count:
            some = min(_OPENED_AT_ONCE, count - len(found))
            found += await asyncio.gather(*(cls.open(door) for _ in range(some)))
        return found

    async def ask(self, method: str, path: str, headers: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nhost: dispatch\r\n{headers}content-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        return int(lines[0].split(b" ", 2)[1]), await self._reader.readexactly(length)

    async def wait_for_job(self, token: str) -> tuple[int, bytes]:
        """Asks again for as long as there is nothing to do, as a Pod does that has waited for some minutes; gives the first
        other answer.
        """
        headers = f"authorization: Bearer {token}\r\nprefer: wait={LONGEST_HOLD:.0f}\r\n"
        while True:
            code, body = await self.ask("POST", "/api/internal/runners/dispatch", headers, b"{}")
            if code != 204:
                return code, body

    async def announce(self, job: int) -> int:
        headers, body = webhook(job)
        return (await self.ask("POST", "/webhooks/github", headers, body))[0]

    def close(self) -> None:
        self._writer.close()


def webhook(job: int) -> tuple[str, bytes]:
    """A `queued` delivery about this job, signed: its headers and its body, as large as GitHub's are."""
    account = 1 + job % ACCOUNTS
    body = json.dumps(
        {
            "action": "queued",
            "workflow_job": {
                "id": job,
                "run_id": job,
                "run_attempt": 1,
                "name": f"job {job}",
                "workflow_name": "build",
                "head_branch": "main",
                "labels": [LABEL],
                "steps": [{"name": "a step of the job", "status": "queued", "number": n} for n in range(60)],
            },
            "repository": {"full_name": f"org{account}/app", "owner": {"id": account, "login": f"org{account}"}},
            "installation": {"id": 1000 + account},
        }
    ).encode()
    signature = hmac.new(WEBHOOK_SECRET.reveal().encode(), body, hashlib.sha256).hexdigest()
    headers = (
        f"x-hub-signature-256: sha256={signature}\r\nx-github-event: workflow_job\r\n"
        f"x-github-delivery: bench-{job}\r\ncontent-type: application/json\r\n"
    )
    return headers, body
