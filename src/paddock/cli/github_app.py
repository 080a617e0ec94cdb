"""`paddock github-app create`: GitHub's manifest flow on loopback. One click registers the App; its secrets are written, never shown."""

import asyncio
import json
import os
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click

from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.host_flags import Duration
from paddock.cli.output import say

__all__ = ["command", "manifest", "missing_from"]

PERMISSIONS: Mapping[str, str] = {"actions": "read", "organization_self_hosted_runners": "write"}
EVENTS = ("workflow_job",)
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class _Order:
    """What is registered, where, and where its secrets go."""

    organization: str
    webhook_url: str
    name: str
    github_url: str
    api_url: str
    folder: Path
    secret: str
    port: int
    timeout: float
    browser: bool


@click.group("github-app")
def command() -> None:
    """Register the GitHub App that Paddock needs."""


@command.command("create")
@click.option("--organization", required=True, help="The organisation that owns the App.")
@click.option(
    "--webhook-url",
    default="",
    help="Where GitHub reaches dispatch: https://HOST/webhooks/github, HOST being yours. Pools with jobSource: ScaleSet need none.",
)
@click.option("--name", default="", help="The App's name, unique at GitHub; without it paddock-ORGANIZATION.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".paddock/github-app",
    show_default=True,
    help="Where its key and its settings are written, for you alone to read.",
)
@click.option(
    "--secret", default="", help="Write a Secret of this name into the cluster instead, such as paddock-github."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port on loopback; 0 takes a free one.")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="How long to wait for the click.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--github-url", default="https://github.com", show_default=True, help="Of a GitHub Enterprise Server: its own."
)
@click.option("--api-url", default="https://api.github.com", show_default=True, help="Its API.")
@reach_flags
def create_command(no_browser: bool, reach: Reach, **flags: Any) -> None:
    """Register the App by one click, and write its id, its key and, with a webhook, its secret.

    A page on this machine leads to GitHub, which asks you and comes back here. Nothing is copied by hand, and nothing
    secret is printed. Exits with 3 where the App lacks a right or an event.
    """
    hook = urlsplit(flags["webhook_url"])
    if flags["webhook_url"] and (hook.scheme != "https" or not hook.hostname):
        raise click.UsageError(
            f"--webhook-url {flags['webhook_url']!r} is not an address such as https://HOST/webhooks/github"
        )
    flags["name"] = flags["name"] or f"paddock-{flags['organization']}"[:34]
    run(_create(_Order(**flags, browser=not no_browser), reach))


def manifest(order: _Order, back: str) -> dict[str, Any]:
    """What GitHub is asked to register. Without a webhook it subscribes to nothing, and its hook is off. Pure."""
    # GitHub wants a page of the App's owner.
    home = f"{order.github_url}/{quote(order.organization, safe='')}"
    hooked = bool(order.webhook_url)
    return {
        "name": order.name,
        "url": home,
        # GitHub wants an address even of a hook that it never calls.
        "hook_attributes": {"url": order.webhook_url or home, "active": hooked},
        "redirect_url": back,
        "public": False,
        "default_permissions": dict(PERMISSIONS),
        "default_events": list(EVENTS) if hooked else [],
    }


def missing_from(made: Mapping[str, Any], *, hooked: bool = True) -> list[str]:
    """Permissions and, with a webhook, events that the App should have and has not, each as a sentence. Pure."""
    given, heard = made.get("permissions") or {}, made.get("events") or ()
    enough = {"read": ("read", "write", "admin"), "write": ("write", "admin")}
    lacking = [
        f"the permission {name} is {given.get(name, 'missing')}, and must be {wanted}"
        for name, wanted in PERMISSIONS.items()
        if given.get(name) not in enough[wanted]
    ]
    wanted_events = EVENTS if hooked else ()
    return lacking + [f"it does not subscribe to {event}" for event in wanted_events if event not in heard]


async def _create(order: _Order, reach: Reach) -> int:
    if not order.secret and (order.folder / "app.env").exists():
        raise Problem(f"{order.folder} holds an App already: move it away, or choose another --folder")
    made = await _registered(order)
    try:
        where = await _kept(order, made, reach)
    except OSError as error:
        raise Problem(f"the App {made['slug']} is registered, but {order.folder} cannot be written: {error}") from error
    hooked = bool(order.webhook_url)
    kept = "its key and webhook secret are" if hooked else "its key is"
    say(f"registered {made['html_url']} (App ID {made['id']}); {kept} in {where}")
    say(f"now install it: {order.github_url}/apps/{made['slug']}/installations/new")
    if not hooked:
        say(
            "it has no webhook: pools ask GitHub for their jobs (jobSource: ScaleSet), outside of the chart with PADDOCK_GITHUB_WEBHOOKS=off"
        )
    if lacking := missing_from(made, hooked=hooked):
        for sentence in lacking:
            say(f"✗ {sentence}: change it on {made['html_url']}", err=True)
        return judged(needs_a_person=True)
    say("✓ permissions and events are as they must be; `paddock doctor` checks the rest")
    return 0


async def _registered(order: _Order) -> dict[str, Any]:
    """What GitHub made of the manifest, once a person has clicked."""
    import secrets

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route

    from paddock.base.http_server import PortInUseError, bind, listening

    state, codes = secrets.token_urlsafe(24), asyncio.Queue[str]()
    try:
        sock = bind(order.port, "--port")
    except PortInUseError as error:
        raise Problem(str(error)) from error
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    target = f"{order.github_url}/organizations/{quote(order.organization, safe='')}/settings/apps/new?state={state}"
    policy = f"default-src 'none'; form-action {order.github_url}; base-uri 'none'; frame-ancestors 'none'"

    async def begin(_: Request) -> Response:
        page = _page(target, json.dumps(manifest(order, f"{address}/created")))
        return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": policy})

    async def created(request: Request) -> Response:
        # The state proves that this answer belongs to the page that was served here, and is no page of a stranger.
        shown, code = request.query_params.get("state", ""), request.query_params.get("code", "")
        if not secrets.compare_digest(shown.encode(), state.encode()) or not code:
            return HTMLResponse("This is not the answer that was waited for.\n", 400, headers=_HEADERS)
        codes.put_nowait(code)
        return HTMLResponse("Done: go back to the terminal.\n", headers=_HEADERS)

    routes = [Route("/", begin), Route("/created", created)]
    async with listening(Starlette(routes=routes), sock):
        say(f"open {address} and click; waiting…")
        if order.browser:
            await asyncio.to_thread(webbrowser.open, address)
        try:
            async with asyncio.timeout(order.timeout):
                code = await codes.get()
        except TimeoutError:
            raise Problem("nothing was clicked in time; nothing was registered, unless GitHub says otherwise") from None
        return await _converted(order, code)


async def _converted(order: _Order, code: str) -> dict[str, Any]:
    import httpx2

    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    url = f"{order.api_url.rstrip('/')}/app-manifests/{quote(code, safe='')}/conversions"
    try:
        async with httpx2.AsyncClient(timeout=30.0, headers=headers) as http:
            answer = await http.post(url)
    except httpx2.HTTPError as error:
        raise Problem(f"{order.api_url} does not answer ({type(error).__name__}): register the App anew") from None
    if answer.status_code != 201:
        raise Problem(f"GitHub refused the code (HTTP {answer.status_code}); it is good once, for an hour: begin anew")
    made = answer.json()
    needed = ("id", "slug", "html_url", "pem", *(("webhook_secret",) if order.webhook_url else ()))
    if not all(made.get(field) for field in needed):
        raise Problem("GitHub's answer lacks the App's id, key or webhook secret: look at the App's settings page")
    return made


async def _kept(order: _Order, made: Mapping[str, Any], reach: Reach) -> str:
    values = {
        "PADDOCK_GITHUB_APP_ID": str(made["id"]),
        "PADDOCK_GITHUB_PRIVATE_KEY": made["pem"],
        **(
            {"PADDOCK_GITHUB_WEBHOOK_SECRET": made["webhook_secret"]}
            if order.webhook_url
            else {"PADDOCK_GITHUB_WEBHOOKS": "off"}
        ),
    }
    if order.secret:
        from paddock.kube.builtin import SecretObject
        from paddock.kube.objects import ObjectMeta

        async with connected(reach) as reached:
            meta = ObjectMeta(name=order.secret, namespace=reached.namespace)
            await reached.client.apply(SecretObject(metadata=meta, data={k: v.encode() for k, v in values.items()}))
            return f"Secret {reached.namespace}/{order.secret}"
    await asyncio.to_thread(_written, order.folder, values)
    return f"{order.folder}; `set -a; . {order.folder}/app.env` before `paddock up`"


def _written(folder: Path, values: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = folder / "app.pem"
    lines = [f"{name}='{value}'" for name, value in values.items() if name != "PADDOCK_GITHUB_PRIVATE_KEY"]
    lines.append(f"PADDOCK_GITHUB_PRIVATE_KEY_FILE='{pem.resolve()}'")
    # The key first: the settings name it, and a start that finds them must find it.
    for path, text in ((pem, values["PADDOCK_GITHUB_PRIVATE_KEY"]), (folder / "app.env", "\n".join(lines) + "\n")):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)


def _page(target: str, content: str) -> str:
    from markupsafe import escape

    return (
        "<!doctype html><meta charset=utf-8><title>Paddock: register the GitHub App</title>"
        f'<form method="post" action="{escape(target)}"><input type="hidden" name="manifest" value="{escape(content)}">'
        "<p>GitHub shows what is registered and asks you before it does anything.</p>"
        "<button type=submit>Register the App at GitHub</button></form>"
    )
