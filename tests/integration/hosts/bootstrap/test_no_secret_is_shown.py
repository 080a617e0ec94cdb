"""Marked secrets go in; nothing that comes out, on any path, may hold one of them."""

import base64
import io
import re

import pytest
from integration.hosts.bootstrap.rig import Rig

from paddock.base import logs
from paddock.base.secrets import Password, Secret
from paddock.hosts.bootstrap import Failed, FailureKind
from paddock.hosts.bootstrap.kcpassword import encode

PASSWORD = "mark3d-pa55word-of-the-mac"
TOKEN = "mark3d.token.of-the-node"
KUBECONFIG = f"apiVersion: v1\nkind: Config\nusers:\n- name: node\n  user:\n    token: {TOKEN}\n"


def shapes(rig: Rig) -> list[str]:
    texts = [PASSWORD, TOKEN, KUBECONFIG]
    encoded = [base64.b64encode(text.encode()).decode().rstrip("=") for text in texts]
    kcpassword = encode(Password(PASSWORD))
    key = [line for line in rig.key.private.reveal().splitlines() if len(line) > 20 and "KEY" not in line]
    return [*texts, *encoded, base64.b64encode(kcpassword).decode().rstrip("="), kcpassword.hex(), *key, "mark3d"]


def assert_clean(rig: Rig, *shown: object) -> None:
    said = [repr(entry) for entry in rig.progress] + [entry.sentence for entry in rig.progress]
    processes = [call.line for call in rig.mac.calls] + list(rig.mac.commands)
    effects = [str(effect) for effect in rig.mac.effects]
    everything = "\n".join([*map(str, shown), *map(repr, shown), *said, *processes, *effects])
    for shape in shapes(rig):
        assert shape not in everything, f"{shape[:12]}… is shown"


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(level="debug", json=True, stream=stream)
    return stream


def marked(rig: Rig, password: str = PASSWORD):
    return rig.host(password=Password(password), kubeconfig=Secret(KUBECONFIG))


@pytest.mark.slow
async def test_a_run_that_succeeds_shows_none(rig: Rig, log: io.StringIO):
    rig.mac.reinstall(password=PASSWORD, keys=[rig.key.public])
    host = marked(rig)
    outcome = await rig.ready(host)
    updated = await rig.update(host)
    assert_clean(rig, outcome, updated, host, log.getvalue())
    assert re.search(rb"mark3d.token", rig.mac.read("/etc/tart-kubelet/kubeconfig")), "it did get there"


@pytest.mark.parametrize(
    "tool",
    [
        "visudo",
        *(
            pytest.param(tool, marks=pytest.mark.slow)
            for tool in ("install", "defaults", "launchctl", "pfctl", "codesign", "scutil", "pmset")
        ),
    ],
)
async def test_no_step_that_fails_shows_any_even_if_a_tool_prints_all_it_was_given(
    rig: Rig, log: io.StringIO, tool: str
):
    rig.mac.reinstall(password=PASSWORD, keys=[rig.key.public])
    host = marked(rig)
    shell = _Blabbing(rig, tool)
    outcome = await rig.bootstrap(shell).run(host, rig.fleet, rig.note)
    assert isinstance(outcome, Failed)
    assert_clean(rig, outcome, log.getvalue())


class _Blabbing:
    """A host whose scripts print every secret they read to both outputs and fail in the given tool."""

    def __init__(self, rig: Rig, tool: str) -> None:
        self._ssh = rig.mac.ssh()
        self._tool = tool

    def connect(self, target, *, timeout: float = 15.0):
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def connected():
            async with self._ssh.connect(target, timeout=timeout) as shell:
                yield _BlabbingShell(shell, self._tool)

        return connected()

    async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
        return await self._ssh.host_key(address, port, timeout=timeout)


class _BlabbingShell:
    def __init__(self, shell, tool: str) -> None:
        self._shell = shell
        self._tool = tool
        self.host_key = shell.host_key

    async def run(self, script: str, *, arguments=(), secrets=(), upload=None, timeout: float):
        failing = (
            f'{self._tool}() {{ printf "changed %s\\nnote %s\\n" "${{password:-}}" "${{encoded:-}}"; '
            f'printf "%s %s %s\\n" "$*" "${{password:-}}" "${{encoded:-}}" >&2; '
            'printf "%s" "${encoded:-}" | base64 -D >&2; return 1; }\n'
            f'sudo() {{ if [ "${{2:-}}" = {self._tool} ]; then {self._tool}; else command sudo "$@"; fi; }}\n'
        )
        return await self._shell.run(
            failing + script, arguments=arguments, secrets=secrets, upload=upload, timeout=timeout
        )


async def test_a_refused_password_is_not_shown(rig: Rig, log: io.StringIO):
    outcome = await rig.failed(marked(rig, PASSWORD + "-wrong"))
    assert outcome.kind is FailureKind.PASSWORD_REFUSED
    assert_clean(rig, outcome, outcome.sentence, log.getvalue())
