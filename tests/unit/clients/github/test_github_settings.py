from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from doubles.scripted_github import app_key, settings

from paddock.base.secrets import Secret
from paddock.clients.github import GitHubSettings, SettingsError

PREFIX = "PADDOCK_GITHUB_"


def environ(**changes: str | None) -> dict[str, str]:
    values = {"APP_ID": "12345", "PRIVATE_KEY": app_key(), "WEBHOOK_SECRET": "hook-MARKED"} | changes
    return {f"{PREFIX}{name}": value for name, value in values.items() if value is not None}


def test_the_environment_is_enough():
    found = GitHubSettings.from_env(environ())
    assert found.app_id == "12345"
    assert found.api_url == "https://api.github.com"
    assert found.webhook_secrets == (Secret("hook-MARKED"),)
    assert "MARKED" not in repr(found)
    assert app_key()[40:80] not in repr(found)


def test_secrets_come_from_files_as_well_and_the_previous_one_is_second(tmp_path: Path):
    for name, text in {"key": app_key(), "now": "now\n", "before": "before\n"}.items():
        (tmp_path / name).write_text(text)
    found = GitHubSettings.from_env(
        environ(
            PRIVATE_KEY=None,
            PRIVATE_KEY_FILE=str(tmp_path / "key"),
            WEBHOOK_SECRET=None,
            WEBHOOK_SECRET_FILE=str(tmp_path / "now"),
            WEBHOOK_SECRET_PREVIOUS_FILE=str(tmp_path / "before"),
            API_URL="https://github.example.com/api/v3/",
        )
    )
    assert found.webhook_secrets == (Secret("now"), Secret("before"))
    assert found.api_url == "https://github.example.com/api/v3"


def test_a_key_on_one_line_is_understood():
    GitHubSettings.from_env(environ(PRIVATE_KEY=app_key().replace("\n", "\\n")))


@pytest.mark.parametrize(
    ("changes", "variable", "remedy"),
    [
        ({"APP_ID": None}, "APP_ID", "settings page"),
        ({"APP_ID": "my app"}, "APP_ID", "client ID"),
        ({"PRIVATE_KEY": None}, "PRIVATE_KEY_FILE", "generate a private key"),
        ({"PRIVATE_KEY": "MARKED"}, "PRIVATE_KEY", "generate a private key"),
        ({"WEBHOOK_SECRET": " "}, "WEBHOOK_SECRET_FILE", "under Webhook"),
        ({"WEBHOOK_SECRET_FILE": "/MARKED"}, "WEBHOOK_SECRET_FILE", "leave one of them out"),
        ({"WEBHOOK_SECRET": None, "WEBHOOK_SECRET_FILE": "MARKED-secret-in-the-wrong-place"}, "FILE", "cannot be read"),
        ({"WEBHOOK_SECRET_PREVIOUS_FILE": "/dev/null"}, "WEBHOOK_SECRET_PREVIOUS_FILE", "leave the variable out"),
        ({"API_URL": "http://github.example.com"}, "API_URL", "use https"),
        ({"API_URL": "https://user:MARKED@github.example.com"}, "API_URL", "credentials"),
        ({"API_URL": "ftp://github.example.com"}, "API_URL", "https://api.github.com"),
        ({"API_URL": "https://[github"}, "API_URL", "https://api.github.com"),
    ],
)
def test_an_error_names_the_variable_and_the_remedy_and_never_the_value(
    changes: dict[str, Any], variable: str, remedy: str
):
    with pytest.raises(SettingsError) as raised:
        GitHubSettings.from_env(environ(**changes))
    assert variable in raised.value.message
    assert remedy in raised.value.message
    assert "MARKED" not in raised.value.message


def test_a_key_that_github_would_not_take_is_refused_at_the_start():
    locked = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )
    with pytest.raises(SettingsError, match="password"):
        settings(private_key=Secret(locked.decode()))
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SettingsError, match="no RSA key"):
        settings(private_key=Secret(other.decode()))


@pytest.mark.parametrize("changes", [{"call_timeout": 0}, {"read_attempts": 0}, {"webhook_secrets": (Secret(""),)}])
def test_numbers_that_cannot_work_are_refused(changes: dict[str, Any]):
    with pytest.raises(SettingsError):
        settings(**changes)
