"""The manifest flow against a stand-in GitHub: one click, secrets in files of one's own, nothing secret on the screen."""

import asyncio
import html
import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from paddock.base.http_server import bind, listening
from paddock.cli import github_app
from paddock.cli.connections import Problem, Reach

MADE: dict[str, Any] = {
    "id": 77, "slug": "paddock-acme", "html_url": "https://github.com/apps/paddock-acme", "pem": "PEM-swordfish\n",
    "webhook_secret": "hook-swordfish", "permissions": {"actions": "read", "organization_self_hosted_runners": "write"},
    "events": ["workflow_job"],
}  # fmt: skip


@pytest.fixture
async def api() -> AsyncIterator[str]:
    async def converted(request: Request) -> Response:
        good = request.path_params["code"] == "good"
        return JSONResponse(MADE, 201) if good else JSONResponse({"message": "Not Found"}, 404)

    sock = bind(0, "a free port")
    route = Route("/app-manifests/{code}/conversions", converted, methods=["POST"])
    async with listening(Starlette(routes=[route]), sock):
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


def order(api: str, folder: Path, **more: Any) -> Any:
    told = {
        "organization": "acme", "webhook_url": "https://ci.example.com/webhooks/github", "name": "paddock-acme",
        "github_url": "https://github.com", "api_url": api, "folder": folder, "secret": "", "port": 0, "timeout": 20.0,
        "browser": False,
    }  # fmt: skip
    return github_app._Order(**{**told, **more})


async def clicked(said: list[str], code: str = "good", *, state: str | None = None) -> tuple[dict[str, Any], int]:
    """What a browser does: the page, its form, and GitHub's way back. Gives the manifest and the last answer's status."""
    while not said:
        await asyncio.sleep(0.01)
    address = re.findall(r"http://\S+", said[0])[0]
    async with httpx2.AsyncClient(trust_env=False) as browser:
        page = await browser.get(address)
        assert "form-action https://github.com;" in page.headers["content-security-policy"]
        shown = json.loads(html.unescape(re.findall(r'name="manifest" value="([^"]*)"', page.text)[0]))
        known = re.findall(r"settings/apps/new\?state=([\w-]+)", page.text)[0]
        assert "/organizations/acme/settings/apps/new" in page.text
        answer = await browser.get(shown["redirect_url"], params={"code": code, "state": state or known})
    return shown, answer.status_code


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(github_app, "say", lambda text, **_: lines.append(str(text)))
    return lines


async def test_one_click_registers_the_app_and_writes_its_secrets_for_their_owner_alone(
    api: str, tmp_path: Path, said: list[str]
):
    folder = tmp_path / "app"
    code, (shown, _) = await asyncio.gather(github_app._create(order(api, folder), Reach()), clicked(said))
    assert code == 0
    assert shown["hook_attributes"] == {"url": "https://ci.example.com/webhooks/github", "active": True}
    assert (shown["default_permissions"], shown["public"]) == (dict(github_app.PERMISSIONS), False)
    assert (folder / "app.pem").read_text() == "PEM-swordfish\n"
    env = (folder / "app.env").read_text()
    assert "PADDOCK_GITHUB_APP_ID='77'" in env
    assert "PADDOCK_GITHUB_WEBHOOK_SECRET='hook-swordfish'" in env
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("app.pem", "app.env")} == {0o600}
    assert "swordfish" not in "".join(said)
    with pytest.raises(Problem, match="holds an App already"):
        await github_app._create(order(api, folder), Reach())


async def test_without_a_webhook_the_hook_is_off_and_no_secret_is_written(
    api: str, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(MADE, "events", [])
    monkeypatch.setitem(MADE, "webhook_secret", None)
    folder = tmp_path / "app"
    code, (shown, _) = await asyncio.gather(
        github_app._create(order(api, folder, webhook_url=""), Reach()), clicked(said)
    )
    assert code == 0
    assert (shown["hook_attributes"]["active"], shown["default_events"]) == (False, [])
    env = (folder / "app.env").read_text()
    assert "WEBHOOK_SECRET" not in env
    assert "PADDOCK_GITHUB_WEBHOOKS='off'" in env
    assert any("jobSource: ScaleSet" in line for line in said)


def test_an_address_that_is_none_is_refused_and_none_at_all_is_not(monkeypatch: pytest.MonkeyPatch):
    orders: list[Any] = []
    monkeypatch.setattr(github_app, "_create", lambda order, _: orders.append(order))
    monkeypatch.setattr(github_app, "run", lambda _: None)
    shell = CliRunner()
    wrong = shell.invoke(github_app.command, ["create", "--organization", "acme", "--webhook-url", "http://ci"])
    assert (wrong.exit_code, orders) == (2, [])
    assert "--webhook-url 'http://ci' is not an address" in wrong.output
    assert shell.invoke(github_app.command, ["create", "--organization", "acme"]).exit_code == 0
    assert [order.webhook_url for order in orders] == [""]


async def test_an_answer_with_another_state_is_not_taken(api: str, tmp_path: Path, said: list[str]):
    work = asyncio.ensure_future(github_app._create(order(api, tmp_path / "app"), Reach()))
    assert (await clicked(said, state="a-strangers"))[1] == 400
    assert not work.done()
    await clicked(said)
    assert await work == 0


async def test_a_code_that_github_refuses_and_a_click_that_never_comes_are_sentences(
    api: str, tmp_path: Path, said: list[str]
):
    work = asyncio.ensure_future(github_app._create(order(api, tmp_path / "app"), Reach()))
    await clicked(said, code="used")
    with pytest.raises(Problem, match=r"GitHub refused the code \(HTTP 404\)"):
        await work
    with pytest.raises(Problem, match="nothing was clicked in time"):
        await github_app._create(order(api, tmp_path / "app", timeout=0.05), Reach())


def test_what_the_app_lacks_is_named():
    assert github_app.missing_from(MADE) == []
    lacking = github_app.missing_from({"permissions": {"actions": "read", "organization_self_hosted_runners": "read"}})
    assert lacking == [
        "the permission organization_self_hosted_runners is read, and must be write",
        "it does not subscribe to workflow_job",
    ]
