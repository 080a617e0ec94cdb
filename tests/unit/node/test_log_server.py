"""`kubectl logs` by the second path: what the agent serves, and to whom."""

import asyncio

import httpx2
import pytest
from doubles.clocks import StandingClock

from paddock.base.secrets import Secret
from paddock.node.callers import Caller, RefusedError
from paddock.node.log_server import LARGEST_LOG, log_app

PATH = "/containerLogs/runners/mac-1/runner"


class Log:
    container = "runner"

    def __init__(self, content: bytes = b"one\ntwo\nthree\n") -> None:
        self.content = content
        self.ended = False

    async def part(self, first: int, limit: int) -> tuple[int, bytes] | None:
        return len(self.content), self.content[first : first + limit]

    def over(self) -> bool:
        return self.ended


class Logs:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.asked: list[tuple[str, str]] = []

    def find(self, namespace: str, pod: str) -> Log | None:
        self.asked.append((namespace, pod))
        return self.log if (namespace, pod) == ("runners", "mac-1") else None


class Everybody:
    async def admit(self, certificate: bytes | None, token: Secret | None) -> Caller:
        return Caller("admin")


class Nobody:
    async def admit(self, certificate: bytes | None, token: Secret | None) -> Caller:
        raise RefusedError(403, "eve may not use nodes/proxy of Node mac-1")


def client(logs: Logs, callers: Everybody | Nobody | None = None) -> httpx2.AsyncClient:
    app = log_app(logs, callers or Everybody(), StandingClock())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="https://mac")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=1", "three\n"),
        ("?tailLines=0", ""),
        ("?limitBytes=5", "one\nt"),
        ("?follow=true&limitBytes=5", "one\nt"),
    ],
)
async def test_a_log_is_shown_as_it_was_asked_for(query: str, shown: str):
    async with client(Logs(Log())) as http:
        answer = await http.get(PATH + query)
    assert (answer.status_code, answer.text) == (200, shown)


async def test_a_log_loses_what_a_terminal_would_obey_and_all_but_its_last_mebibyte():
    log = Log(b"x" * LARGEST_LOG + b"\x1b[31mred\x00\n")
    async with client(Logs(log)) as http:
        text = (await http.get(PATH)).text
    assert text.endswith("[31mred\n")
    assert len(text) <= LARGEST_LOG
    assert "\x1b" not in text


async def test_a_followed_log_goes_on_until_the_guest_has_ended_and_loses_no_last_word():
    log = Log(b"one\n")

    class PrintsItsLastWordsAsItEnds(StandingClock):
        async def sleep(self, seconds: float) -> None:
            log.content, log.ended = b"one\ntwo\n", True
            await asyncio.sleep(0)

    app = log_app(Logs(log), Everybody(), PrintsItsLastWordsAsItEnds())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="https://mac") as http:
        answer = await http.get(f"{PATH}?follow=true")
    assert answer.text == "one\ntwo\n"


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/containerLogs/runners/other/runner", 404, "no VM of runners/other"),
        ("/containerLogs/runners/mac-1/sidecar", 404, "only container is runner"),
        (f"{PATH}?tailLines=many", 400, "tailLines is 'many'"),
        (f"{PATH}?previous=true", 400, "never runs twice"),
        (f"{PATH}?timestamps=true", 400, "no times of its own"),
        (f"{PATH}?sinceSeconds=5", 400, "no times of its own"),
        ("/exec/runners/mac-1/runner", 404, "Not Found"),
    ],
)
async def test_what_cannot_be_shown_is_refused_in_one_sentence(path: str, status: int, why: str):
    async with client(Logs(Log())) as http:
        answer = await http.get(path)
    assert answer.status_code == status
    assert why in answer.text


@pytest.mark.parametrize("path", [PATH, "/containerLogs/runners/other/runner", "/healthz"])
async def test_whoever_the_cluster_refuses_learns_nothing_not_even_which_pods_there_are(path: str):
    logs = Logs(Log())
    async with client(logs, Nobody()) as http:
        answer = await http.get(path)
    assert (answer.status_code, logs.asked) == (403, [])
    assert answer.text == "eve may not use nodes/proxy of Node mac-1\n"
