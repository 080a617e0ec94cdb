import pytest

from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewaySettings, SettingsError

PROJECT = "105bdce1-64c0-48ab-899d-868455867ecf"
KEY = "11111111-2222-4333-8444-555555555555"
ENVIRON = {"SCW_ACCESS_KEY": "SCWABC", "SCW_SECRET_KEY": KEY, "SCW_DEFAULT_PROJECT_ID": PROJECT}


def test_the_settings_come_from_the_providers_own_variables():
    settings = ScalewaySettings.from_env({**ENVIRON, "SCW_API_URL": "https://api.example.test/"})
    assert settings.api_url == "https://api.example.test"
    assert settings.project_id == PROJECT
    assert settings.secret_key == Secret(KEY)


def test_the_settings_never_show_the_key():
    settings = ScalewaySettings.from_env(ENVIRON)
    assert KEY not in repr(settings)
    assert KEY not in f"{settings}"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"SCW_SECRET_KEY": ""}, "SCW_SECRET_KEY"),
        ({"SCW_SECRET_KEY": "  "}, "SCW_SECRET_KEY"),
        ({"SCW_DEFAULT_PROJECT_ID": ""}, "SCW_DEFAULT_PROJECT_ID"),
        ({"SCW_DEFAULT_PROJECT_ID": "production"}, "SCW_DEFAULT_PROJECT_ID"),
        ({"SCW_API_URL": "ftp://api.example.test"}, "SCW_API_URL"),
        ({"SCW_API_URL": "api.example.test"}, "SCW_API_URL"),
        ({"SCW_API_URL": "http://api.example.test"}, "https"),
        ({"SCW_API_URL": "https://me:secret@api.example.test"}, "SCW_API_URL"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(change: dict[str, str], named: str):
    with pytest.raises(SettingsError, match=named) as raised:
        ScalewaySettings.from_env({**ENVIRON, **change})
    assert KEY not in str(raised.value)


def test_plain_http_is_allowed_on_loopback_only():
    settings = ScalewaySettings.from_env({**ENVIRON, "SCW_API_URL": "http://127.0.0.1:8090"})
    assert settings.is_loopback
