"""`paddock init`: files to start from, secrets only where they belong, and the checks of `doctor` afterwards."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from unit.cli.scene import Scene
from unit.deploy.test_values import VALUES

from paddock.cli import init, main
from paddock.cli.doctor import outside
from paddock.cli.doctor.check import Check, bad, good
from paddock.hosts.api import MacFleet
from paddock.hosts.bootstrap.pins import known_version
from paddock.kube.builtin import SecretObject
from paddock.runners.api import RunnerPool

KEY = "6c0a3b1e-aaaa-4bbb-8ccc-1234567890ab"
PROJECT = "11111111-2222-4333-8444-555555555555"
HOOK = "0123456789abcdef0123456789abcdef"
VARIABLES = (
    "SCW_SECRET_KEY",
    "SCW_DEFAULT_PROJECT_ID",
    "PADDOCK_GITHUB_APP_ID",
    "PADDOCK_GITHUB_WEBHOOK_SECRET",
    "PADDOCK_GITHUB_PRIVATE_KEY_FILE",
)


@pytest.fixture(scope="module")
def app_key() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app_key: bytes) -> Path:
    """A folder with the three secrets as files, and an environment without any."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "app.pem").write_bytes(app_key)
    (tmp_path / "scw").write_text(f"{KEY}\n")
    (tmp_path / "hook").write_text(f"{HOOK}\n")
    return tmp_path


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Check]]:
    """What the cloud and GitHub are found to be; nothing is asked outside."""
    found = {"cloud": [good("cloud", "Macs are listed")], "github": [good("GitHub", "can be reached")]}
    seen: dict[str, Any] = found

    def asked(name: str) -> Callable[[Any], Any]:
        async def check(environ: Any) -> list[Check]:
            assert environ["SCW_SECRET_KEY"] == KEY
            return seen[name]

        return check

    for name in found:
        monkeypatch.setattr(outside, name, asked(name))
    return found


def flags(places: Path, *more: str) -> list[str]:
    return [
        *("init", "--folder", str(places / "out"), "--project-id", PROJECT, "--secret-key-file", str(places / "scw")),
        *("--organization", "acme", "--host", "paddock.example.com", "--app-id", "42"),
        *("--private-key-file", str(places / "app.pem"), "--webhook-secret-file", str(places / "hook")),
        *("--job-source", "Webhook", *more),
    ]


def typed(places: Path, *more: str, answer: str = "") -> Result:
    outcome = CliRunner().invoke(main, flags(places, *more), input=answer)
    assert KEY not in outcome.output
    assert HOOK not in outcome.output
    return outcome


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("checks")
def test_for_one_machine_it_writes_settings_for_the_owner_alone_and_a_fleet(places: Path):
    outcome = typed(places, "--for", "up", "--macs", "2")
    assert outcome.exit_code == 0, outcome.output
    env = places / "out" / "settings.env"
    assert mode(env) == 0o600
    assert f"SCW_SECRET_KEY='{KEY}'" in env.read_text()
    assert f"PADDOCK_GITHUB_WEBHOOK_SECRET='{HOOK}'" in env.read_text()
    fleet, pool = yaml.safe_load_all((places / "out" / "fleet.yaml").read_text())
    assert msgspec.convert(fleet, MacFleet).spec.replicas == 2
    assert msgspec.convert(pool, RunnerPool).spec.fleet_selector == "macos"
    assert KEY not in (places / "out" / "fleet.yaml").read_text()
    assert "paddock up --advertise-address paddock.example.com" in outcome.output
    assert "2 checks, 0 problems" in outcome.output


def test_what_doctor_finds_is_shown_and_is_the_exit_code(places: Path, checks: dict[str, list[Check]]):
    checks["cloud"] = [bad("cloud", "the key is refused", "make a new one")]
    outcome = typed(places, "--for", "up")
    assert outcome.exit_code == 3
    assert "→ make a new one" in outcome.output
    assert (places / "out" / "settings.env").exists(), "what was written stays"


def within(chosen: Any, known: Any, path: str = "") -> list[str]:
    """The paths that the chart does not know."""
    if not isinstance(chosen, dict) or not isinstance(known, dict) or not known:
        return []
    unknown = [f"{path}.{name}" for name in chosen if name not in known]
    return unknown + [
        one for name in chosen if name in known for one in within(chosen[name], known[name], f"{path}.{name}")
    ]


def test_for_the_chart_values_hold_no_secret_and_only_what_the_chart_knows(places: Path):
    outcome = typed(places, "--for", "chart", "--api-server-url", "https://k:6443", "--no-doctor")
    assert outcome.exit_code == 0, outcome.output
    text = (places / "out" / "values.yaml").read_text()
    assert KEY not in text
    assert HOOK not in text
    assert within(yaml.safe_load(text), VALUES) == []
    assert mode(places / "out" / "scaleway.env") == mode(places / "out" / "github.env") == 0o600
    assert "kubectl create secret generic paddock-scaleway --from-env-file=" in outcome.output


def test_the_secrets_of_the_chart_go_into_the_cluster_and_into_no_file(places: Path, scene: Scene):
    words = flags(places, "--for", "chart", "--api-server-url", "https://k:6443", "--no-doctor", "--secrets")
    outcome = scene.type(*words)
    assert outcome.exit_code == 0, outcome.output
    assert {path.name for path in (places / "out").iterdir()} == {"values.yaml"}
    found = scene.cluster.ask(lambda client: client.get(SecretObject, "paddock-github", "default"))
    assert found.data["PADDOCK_GITHUB_WEBHOOK_SECRET"] == HOOK.encode()
    assert found.data["PADDOCK_GITHUB_PRIVATE_KEY"].startswith(b"-----BEGIN")


@pytest.mark.usefixtures("checks")
def test_nothing_is_written_over_unless_it_is_forced(places: Path):
    assert typed(places, "--for", "up").exit_code == 0
    (places / "out" / "fleet.yaml").write_text("mine")
    outcome = typed(places, "--for", "up")
    assert (outcome.exit_code, "there already: give --force" in outcome.output) == (1, True)
    assert (places / "out" / "fleet.yaml").read_text() == "mine"
    assert typed(places, "--for", "up", "--force").exit_code == 0


def test_a_dry_run_writes_nothing(places: Path):
    outcome = typed(places, "--for", "up", "--dry-run")
    assert (outcome.exit_code, "would write" in outcome.output) == (0, True)
    assert not (places / "out").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), "--for is missing, and there is no terminal to ask on"),
        (("--for", "up", "--project-id", "mine"), "SCW_DEFAULT_PROJECT_ID"),
        (("--for", "up", "--zone", "mars-1"), "--zone mars-1: Scaleway has Macs in"),
    ],
)
def test_what_is_missing_or_wrong_is_named_with_its_flag_or_variable(places: Path, more: tuple[str, ...], says: str):
    outcome = typed(places, *more)
    assert outcome.exit_code in (1, 2)
    assert says in outcome.output
    assert not (places / "out").exists()


@pytest.mark.usefixtures("checks")
def test_what_is_to_be_typed_next_names_the_bundle_unless_it_is_found(places: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PADDOCK_BUNDLE", raising=False)
    built = "--agent-bundle dist/paddock-node-agent-darwin-arm64.tar.gz "
    said = typed(places, "--for", "up").output
    assert built in said
    assert "how the bundle is built and Tart is pinned" in said
    monkeypatch.setenv("PADDOCK_BUNDLE", "/srv/bundle.tar.gz")
    said = typed(places, "--for", "up", "--force").output
    assert "--agent-bundle" not in said
    assert "docs/first-mac.md says how Tart is pinned" in said


@pytest.mark.usefixtures("checks")
def test_a_person_is_asked_for_what_is_missing_and_a_secret_is_not_shown(places: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(init, "_a_person", lambda: True)
    words = [
        "init",
        "--folder",
        str(places / "out"),
        "--private-key-file",
        str(places / "app.pem"),
        "--job-source",
        "Webhook",
    ]
    answers = f"up\n{PROJECT}\n{KEY}\nacme\npaddock.example.com\ny\n42\n{HOOK}\n"
    outcome = CliRunner().invoke(main, words, input=answers)
    assert outcome.exit_code == 0, outcome.output
    assert KEY not in outcome.output
    assert HOOK not in outcome.output
    written = (places / "out" / "settings.env").read_text()
    assert f"SCW_SECRET_KEY='{KEY}'" in written
    assert "PADDOCK_ACCEPT_TART_LICENCE='yes'" in written


@pytest.mark.usefixtures("checks")
def test_unless_webhooks_are_wanted_github_is_asked_for_jobs_and_no_secret_of_a_webhook_is_needed(places: Path):
    (places / "hook").unlink()
    words = [word for word in flags(places) if word not in ("--job-source", "Webhook")]
    place = words.index("--webhook-secret-file")
    del words[place : place + 2]
    outcome = CliRunner().invoke(main, [*words, "--for", "up"])
    assert outcome.exit_code == 0, outcome.output
    assert "PADDOCK_GITHUB_WEBHOOKS='off'" in (places / "out" / "settings.env").read_text()
    _, pool = yaml.safe_load_all((places / "out" / "fleet.yaml").read_text())
    assert pool["spec"]["jobSource"] == "ScaleSet"
    assert "--runner-bind-address" not in outcome.output


@pytest.mark.usefixtures("checks")
def test_tart_is_taken_only_by_who_accepts_its_licence_and_the_rest_is_said(places: Path):
    outcome = typed(places, "--for", "up")
    assert "TART" not in (places / "out" / "settings.env").read_text()
    assert "Tart is missing" in outcome.output
    assert "--agent-bundle dist/paddock-node-agent-darwin-arm64.tar.gz" in outcome.output
    outcome = typed(
        places, "--for", "chart", "--api-server-url", "https://k:6443", "--no-doctor", "--accept-tart-licence"
    )
    values = yaml.safe_load((places / "out" / "values.yaml").read_text())
    assert values["macosFleet"]["tart"] == {"version": known_version("tart"), "acceptLicence": True}
    assert "Tart" not in outcome.output


@pytest.mark.usefixtures("checks")
def test_the_folder_of_a_registered_app_is_enough_for_github(places: Path):
    (places / "app.env").write_text(f"PADDOCK_GITHUB_APP_ID='42'\nPADDOCK_GITHUB_WEBHOOK_SECRET='{HOOK}'\n")
    words = [
        *("init", "--for", "up", "--folder", str(places / "out"), "--project-id", PROJECT),
        *(
            "--secret-key-file",
            str(places / "scw"),
            "--organization",
            "acme",
            "--host",
            "h",
            "--github-app",
            str(places),
        ),
    ]
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == 0, outcome.output
    assert "PADDOCK_GITHUB_APP_ID='42'" in (places / "out" / "settings.env").read_text()
