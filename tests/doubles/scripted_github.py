"""A GitHub that does as it is told: it grants tokens, answers from a script and remembers what it was asked."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from functools import cache
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from doubles.clocks import SteppedClock

from paddock.base.clock import rfc3339
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient, GitHubSettings

INSTALLATION = 77
REPOSITORY = "acme/rocket"
TOKEN = "ghs_MARKED"  # every granted token starts with this
JIT = "jit-config-MARKED"
MINTED = {"runner": {"id": 9, "name": "runner-1"}, "encoded_jit_config": JIT}
DEFAULT_GROUP = {"id": 1, "name": "Default", "default": True}
JOB = {"id": 5, "status": "queued", "run_id": 3, "labels": ["macos"]}

Reply = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


@cache
def app_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


@cache
def plain_settings() -> GitHubSettings:
    return settings(app_id="12345")


def settings(**changes: Any) -> GitHubSettings:
    values: dict[str, Any] = {
        "app_id": "12345",
        "private_key": Secret(app_key()),
        "webhook_secrets": (Secret("hook-MARKED"),),
        "api_url": "http://127.0.0.1:1",
    }
    return GitHubSettings(**(values | changes))


def ok(body: object, status: int = 200, headers: dict[str, str] | None = None) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers=headers)


def refused(status: int, message: str = "no", **headers: str) -> httpx2.Response:
    return httpx2.Response(
        status, json={"message": message}, headers={key.replace("_", "-"): value for key, value in headers.items()}
    )


def limits(clock: SteppedClock, remaining: int, *, limit: int = 5000, reset_in: float = 1800, resource: str = "core"):
    return {
        "date": format_datetime(clock.now(), usegmt=True),
        "x-ratelimit-limit": str(limit),
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int((clock.now() + timedelta(seconds=reset_in)).timestamp())),
        "x-ratelimit-resource": resource,
    }


class ScriptedGitHub(httpx2.AsyncBaseTransport):
    """Answers with the next reply of its script, repeating the last; tokens are granted beside the script."""

    def __init__(self, clock: SteppedClock, *script: Reply) -> None:
        self.clock = clock
        self.script: list[Reply] = list(script)
        self.token_script: list[Reply] = []
        self.token_life = timedelta(hours=1)
        self.requests: list[httpx2.Request] = []
        self.grants: list[httpx2.Request] = []
        self.gate: asyncio.Event | None = None
        self.groups: list[Reply] = [ok({"total_count": 1, "runner_groups": [DEFAULT_GROUP]})]
        """What it says of runner groups, beside the script."""
        self.group_questions: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/access_tokens"):
            return await self._grant(request)
        if request.url.path.endswith("/runner-groups"):
            self.group_questions.append(str(request.url.copy_with(scheme="", host="", port=None)))
            return self._reply(self.groups, request)
        self.requests.append(request)
        return self._reply(self.script, request)

    async def _grant(self, request: httpx2.Request) -> httpx2.Response:
        self.grants.append(request)
        number = len(self.grants)
        if self.gate is not None:
            await self.gate.wait()
        if self.token_script:
            return self._reply(self.token_script, request, keep_last=False)
        ends = self.clock.now() + self.token_life
        return ok({"token": f"{TOKEN}-{number}", "expires_at": rfc3339(ends)}, status=201)

    @staticmethod
    def _reply(script: list[Reply], request: httpx2.Request, *, keep_last: bool = True) -> httpx2.Response:
        reply = script[0] if keep_last and len(script) == 1 else script.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            return reply(request)
        # A response is spent once it was read, and the last one is given again and again.
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)

    def client(self, **changes: Any) -> GitHubClient:
        return GitHubClient(
            settings(**changes) if changes else plain_settings(), self.clock, seeded("the client"), self
        )

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.requests]

    @property
    def credentials(self) -> list[str]:
        return [request.headers["Authorization"] for request in self.requests]


class SilentGitHub(ScriptedGitHub):
    """Grants tokens, and never answers anything else."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith(("/access_tokens", "/runner-groups")):
            self.requests.append(request)
            await asyncio.Event().wait()
        return await super().handle_async_request(request)


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks go on until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def minted(client: GitHubClient, name: str = "runner-1", repository: str = REPOSITORY, **more: Any):
    return await client.mint(INSTALLATION, repository, name=name, labels=["macos"], work_folder="/work", **more)
