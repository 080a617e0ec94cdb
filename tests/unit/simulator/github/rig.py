"""A simulated GitHub at hand: raw calls as an App and as an installation, and a receiver of webhooks."""

import asyncio
import functools
from typing import Any

import httpx2
import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.simulator.github import RunnerSession, SimulatedGitHub, SimulatedJob
from paddock.simulator.transport import InProcessTransport

LABELS = ["self-hosted", "macOS", "paddock"]


@functools.cache
def _loaded(pem: str) -> RSAPrivateKey:
    # Reading a key takes longer than most of what these tests do.
    key = load_pem_private_key(pem.encode(), password=None)
    assert isinstance(key, RSAPrivateKey)
    return key


class Receiver:
    """Keeps what it is sent, and answers with `status`."""

    def __init__(self) -> None:
        self.status = 202
        self.silent = False
        self.received: list[tuple[dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.received.append(({name.decode(): value.decode() for name, value in scope["headers"]}, body))
        if self.silent:
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(body) for _, body in self.received]

    @property
    def actions(self) -> list[str]:
        return [payload["action"] for payload in self.payloads]


class Rig:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.github = SimulatedGitHub(self.clock, seeded("github"))
        self.github.add_organization("acme", "app", "web")
        self.github.add_user("bob", "toy")
        self.receiver = Receiver()
        self.github.deliver_to("http://127.0.0.1/webhooks/github", InProcessTransport(self.receiver))
        self.http = httpx2.AsyncClient(transport=self.github.transport(), base_url="http://127.0.0.1")
        self._tokens: dict[str, str] = {}
        self._names = 0

    def app_jwt(self, *, issued: float = -60, lasts: float = 600, **claims: Any) -> str:
        born = self.clock.now().timestamp() + issued
        body = {"iat": int(born), "exp": int(born + lasts), "iss": self.github.app_id, **claims}
        return jwt.encode(body, _loaded(self.github.private_key.reveal()), algorithm="RS256")

    async def as_app(self, method: str, path: str, **rest: Any) -> httpx2.Response:
        return await self._sent(method, path, self.app_jwt(), **rest)

    async def call(self, method: str, path: str, *, as_: str = "acme", **rest: Any) -> httpx2.Response:
        """A request as the installation at that account."""
        if as_ not in self._tokens:
            number = self.github.account(as_).installation_id
            answer = await self.as_app("POST", f"/app/installations/{number}/access_tokens")
            self._tokens[as_] = answer.json()["token"]
        return await self._sent(method, path, self._tokens[as_], **rest)

    async def _sent(self, method: str, path: str, credential: str, **rest: Any) -> httpx2.Response:
        return await self.http.request(method, path, headers={"Authorization": f"Bearer {credential}"}, **rest)

    async def mint(self, place: str = "orgs/acme", *, as_: str = "acme", **fields: Any) -> httpx2.Response:
        self._names += 1
        body = {"name": f"runner-{self._names}", "runner_group_id": 1, "labels": LABELS, "work_folder": "_work"}
        return await self.call("POST", f"/{place}/actions/runners/generate-jitconfig", as_=as_, json={**body, **fields})

    async def runner(self, place: str = "orgs/acme", *, as_: str = "acme", **fields: Any) -> RunnerSession:
        """A runner that is online."""
        minted = await self.mint(place, as_=as_, **fields)
        assert minted.status_code == 201, minted.text
        return self.github.connect(minted.json()["encoded_jit_config"])

    async def running(self, **fields: Any) -> tuple[SimulatedJob, RunnerSession]:
        """A job in progress on a runner of its own."""
        job = self.github.submit("acme/app", labels=LABELS, **fields)
        session = await self.runner()
        assignment = await session.next_job(10)
        assert assignment is not None
        assert assignment.job_id == job.id
        return job, session

    async def deliver(self, seconds: float = 5.0) -> list[str]:
        """Let that much time pass, send what is due, and return what has been received so far."""
        self.clock.step(seconds)
        await self.github.deliver_due()
        return self.receiver.actions

    async def aclose(self) -> None:
        await self.http.aclose()
        await self.github.aclose()
