"""`paddock up` for real Macs: what it is told about addresses and credentials, and what `paddock doctor` says of it."""

import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette

from paddock.base.http_server import Tls, bind, listening
from paddock.cli import main
from paddock.cli.doctor import one_machine as doctor
from paddock.cli.doctor.check import Check
from paddock.cli.up import hint
from paddock.embedded.certificates import Certificates

CREDENTIALS = {"SCW_SECRET_KEY": "key", "SCW_DEFAULT_PROJECT_ID": "00000000-0000-4000-8000-000000000000"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options that `paddock up` would start with; nothing starts."""
    found: list[Any] = []

    async def run(options: Any) -> int:
        found.append(options)
        return 0

    monkeypatch.setattr("paddock.cli.up._run", run)
    for name in ("PADDOCK_BUNDLE", "PADDOCK_TART_URL", "PADDOCK_DSN", "PADDOCK_GITHUB_APP_ID", *CREDENTIALS):
        monkeypatch.delenv(name, raising=False)
    return found


def typed(*words: str, **environment: str) -> Any:
    return CliRunner().invoke(main, ["up", *words], env={**CREDENTIALS, **environment})


def test_one_address_is_enough_for_macs(started: list[Any]):
    assert typed("--advertise-address", "mini.example.com").exit_code == 0
    [options] = started
    assert options.api_server_url == "https://mini.example.com:8443"
    assert (options.runner_url, options.macs_door) == ("https://mini.example.com:8444", ("0.0.0.0", 8444))


def test_an_address_of_its_own_flag_holds(started: list[Any]):
    words = ("--advertise-address", "2001:db8::7", "--runner-dispatch-url", "https://ci.example.com")
    assert typed(*words, "--kube-port", "9443").exit_code == 0
    [options] = started
    assert (options.api_server_url, options.runner_url) == ("https://[2001:db8::7]:9443", "https://ci.example.com")
    assert options.macs_door is None, "whoever has a proxy for dispatch needs no second listener"


def test_without_an_address_it_says_that_no_mac_can_join(started: list[Any]):
    said = typed().output
    assert "--advertise-address: the Kubernetes API listens on loopback, so no Mac can join" in said
    assert "--agent-bundle" in said
    assert len(started) == 1, "Macs that are there already are looked after all the same"


@pytest.mark.parametrize(
    "words", [("https://x.example",), ("x.example", "--kube-port", "0"), ("x.example", "--simulate")]
)
def test_an_address_that_cannot_work_is_refused_by_name(started: list[Any], words: tuple[str, ...]):
    outcome = typed("--advertise-address", *words)
    assert (outcome.exit_code, started) == (2, [])
    assert "--advertise-address" in outcome.output


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SCW_SECRET_KEY": ""}, "SCW_SECRET_KEY"),
        ({"PADDOCK_GITHUB_APP_ID": "12"}, "PADDOCK_GITHUB_WEBHOOK_SECRET"),
    ],
)
def test_missing_credentials_are_one_sentence_before_anything_starts(
    started: list[Any], environment: dict[str, str], said: str
):
    outcome = typed(**environment)
    assert (outcome.exit_code, started) == (1, [])
    assert outcome.output.startswith("paddock: ")
    assert said in outcome.output
    assert "--simulate" in outcome.output


# What doctor says


def test_only_an_up_for_real_macs_tells_something():
    assert doctor.told_by(["https://127.0.0.1:8443 http://127.0.0.1:8080", '{"macs": {"api": "x"}}']) == {"api": "x"}
    assert doctor.told_by(["https://127.0.0.1:8443 http://127.0.0.1:8080", '{"pool_prefix": "p"}']) == {}
    assert doctor.told_by(["one line of an older version"]) == {}
    assert doctor.told_by([]) == {}


async def examined(told: dict[str, Any], authority: str = "") -> dict[str, Check]:
    return {check.about: check for check in await doctor.one_machine(told, authority)}


async def test_everything_that_is_missing_is_named_with_its_remedy():
    found = await examined({"api": "", "dispatch": "https://localhost:8444", "agent": False, "tart": False})
    softnet = found.pop("Softnet")
    assert (softnet.state, "--softnet-version" in softnet.found) == ("ok", True)
    assert {check.state for check in found.values()} == {"problem"}
    assert set(found) == {"Macs to the API", "Macs to dispatch", "node agent", "Tart", "GitHub App"}
    assert "--advertise-address" in found["Macs to the API"].fix
    assert "loopback, which no Mac reaches" in found["Macs to dispatch"].found
    assert "make bundle" in found["node agent"].fix
    assert "--accept-tart-licence" in found["Tart"].fix
    assert "PADDOCK_GITHUB_APP_ID" in found["GitHub App"].fix


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, str]]:
    """A listener for the name mini.example.com, which leads here: its URL, and its authority."""
    made = Certificates.ensure(tmp_path / "pki", datetime.now(UTC), "mini.example.com")
    sock = bind(0, "--port")
    port = sock.getsockname()[1]
    ask = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **more: ask("127.0.0.1" if "example" in host else host, *rest, **more),
    )
    async with listening(Starlette(), sock, Tls(made.certificate, made.key)):
        yield f"https://mini.example.com:{port}", made.authority.read_text()


async def test_an_address_is_tried_with_the_authority_that_macs_have(server: tuple[str, str]):
    url, authority = server
    found = await examined({"api": url, "dispatch": url, "agent": True, "tart": True, "github": True}, authority)
    assert {check.state for check in found.values()} == {"ok"}
    assert ssl.PEM_cert_to_DER_cert(authority)
    stranger = await examined({"api": url}, "")
    assert (stranger["Macs to the API"].state, "TLS" in stranger["Macs to the API"].found) == ("problem", True)


async def test_an_address_that_does_not_answer_names_the_port():
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        # No name is looked up for an address; this one is a documentation address of nobody.
        found = await examined({"api": f"https://0.0.0.0:{port}"})
    check = found["Macs to the API"]
    assert check.state == "problem"
    assert f"open port {port}" in check.fix


def test_the_hint_names_the_kubeconfig_where_a_command_would_not_find_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "KUBECONFIG" not in hint(Path(".paddock/kubeconfig"))
    assert hint(tmp_path / "my data" / "kubeconfig").startswith(f"KUBECONFIG='{tmp_path}/my data/kubeconfig' ")
