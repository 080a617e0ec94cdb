"""What is secret is marked, and the mark is looked for in everything that could be shown."""

import io
import traceback
from collections.abc import Awaitable, Callable, Iterator

import httpx2
import pytest
import structlog
from doubles.scripted_github import (
    INSTALLATION,
    JIT,
    JOB,
    MINTED,
    REPOSITORY,
    TOKEN,
    Reply,
    ScriptedGitHub,
    app_key,
    minted,
    ok,
    refused,
)

from paddock.base.logs import set_up
from paddock.clients.github import GitHubClient, GitHubError


def everything(error: BaseException) -> Iterator[str]:
    """The error, its causes, its fields, and its traceback with the local variables of every frame of ours."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        pending += [current.__cause__, current.__context__]
        yield repr(current) + str(current) + repr(current.args) + repr(vars(current))
        frames = traceback.TracebackException.from_exception(current, capture_locals=True).stack
        for frame in frames:
            if "paddock" in frame.filename and "tests" not in frame.filename:
                yield repr(frame.locals)


def marks(github: ScriptedGitHub) -> list[str]:
    jwts = [request.headers["Authorization"].removeprefix("Bearer ") for request in github.grants]
    key_lines = [line for line in app_key().splitlines() if not line.startswith("-----")]
    return ["MARKED", TOKEN, JIT, *jwts, *key_lines]


def echo(status: int) -> Callable[[httpx2.Request], httpx2.Response]:
    """A proxy that shows the request's headers to whoever sent it."""
    return lambda request: httpx2.Response(status, text=f"<pre>Authorization: {request.headers['Authorization']}</pre>")


def json_echo(status: int) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda request: refused(status, f"bad header {request.headers['Authorization']}")


@pytest.mark.parametrize(
    "reply",
    [
        refused(401),
        refused(404),
        refused(422),
        refused(429),
        refused(502),
        echo(400),
        echo(403),
        echo(502),
        json_echo(401),
        json_echo(403),
        json_echo(422),
        json_echo(429),
        httpx2.ReadError("reset"),
        httpx2.ConnectError("refused"),
        ok({"runner": {"id": "nine"}, "encoded_jit_config": JIT}, 201),
        ok({"runner": None, "encoded_jit_config": JIT}, 201),
        ok({"runner": {"id": 9}, "encoded_jit_config": [JIT]}, 201),
        httpx2.Response(201, text=f'{{"encoded_jit_config": "{JIT}"'),
    ],
    # An address in a name would differ from one process of the test run to the next.
    ids=lambda reply: "echo" if callable(reply) else repr(reply),
)
@pytest.mark.parametrize("where", ["call", "token"])
async def test_no_error_and_no_log_line_holds_a_secret(github: ScriptedGitHub, reply: Reply, where: str):
    shown = io.StringIO()
    before = structlog.get_config()
    set_up(level="debug", json=True, stream=shown)
    try:
        github.script = [reply] if where == "call" else [ok(JOB)]
        github.token_script = [reply] * 20 if where == "token" else []
        calls: list[Callable[[GitHubClient], Awaitable[object]]] = [
            minted,
            lambda client: client.job(INSTALLATION, REPOSITORY, 5),
        ]
        for call in calls:
            client = github.client()
            with pytest.raises(GitHubError) as raised:
                await call(client)
            shown.writelines(everything(raised.value))
            structlog.get_logger().error("call_failed", error=raised.value, exc_info=raised.value)
            shown.write(repr(client.budgets()))
    finally:
        structlog.configure(**before)
    assert shown.getvalue().count("call_failed") == len(calls)
    for mark in marks(github):
        assert mark not in shown.getvalue()


async def test_a_minted_runner_does_not_show_its_config(github: ScriptedGitHub):
    github.script = [ok(MINTED, 201)]
    runner = await minted(github.client())
    for shown in (repr(runner), str(runner), f"{runner}", repr(runner.config), repr([runner])):
        assert JIT not in shown
    assert runner.config.reveal() == JIT
