"""The routes that show and change the allow list, over a ledger and the simulated GitHub."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from integration.runners.ledger.rig import Bench, job
from starlette.applications import Starlette

from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient
from paddock.runners.api import ACCOUNTS_AUDIENCE
from paddock.runners.api.settings import ConfiguredLimit, DispatchSettings
from paddock.runners.dispatch.identity import PodIdentity, Principal, Unauthenticated, Unreachable
from paddock.runners.http.accounts import accounts_routes
from paddock.runners.ledger import Outcome
from paddock.runners.ledger.configured_limits import ConfiguredLimits
from paddock.runners.tenants.configured import ConfiguredAccounts
from paddock.simulator.github import SimulatedGitHub

PATH = "/api/v1/allow-list"
SETTINGS = DispatchSettings(limits=(ConfiguredLimit("capped", "macos", 6, 14_336),))


class Doorkeeper:
    """Knows three tokens, each for one audience."""

    async def principal(self, token: Secret, audience: str) -> Principal:
        match token.reveal():
            case "away":
                raise Unreachable("the cluster is away")
            case "good" if audience == ACCOUNTS_AUDIENCE:
                return Principal(SETTINGS.accounts_principal)
            case "operator" if audience == ACCOUNTS_AUDIENCE:
                return Principal(SETTINGS.controller)
            case _:
                raise Unauthenticated("unknown")

    async def waiting(self, token: Secret) -> PodIdentity:
        raise Unauthenticated("no Pod changes the list")


class Desk:
    def __init__(self, bench: Bench, github: SimulatedGitHub, client: GitHubClient, http: httpx2.AsyncClient) -> None:
        self.bench, self.github, self.client, self.http = bench, github, client, http

    async def ask(self, verb: str, name: str, **more: Any) -> dict[str, Any]:
        body = {"token": "good", "verb": verb, "name": name, "by": "alice", "dry_run": False} | more
        answer = await self.http.post(PATH, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def standing(self, account: int, repository: int = 0) -> str:
        return await self.bench.ledger.allow_list.standing(account, repository)


@pytest_asyncio.fixture
async def desk(bench: Bench) -> AsyncIterator[Desk]:
    github = SimulatedGitHub(bench.clock, seeded("github"))
    async with (
        github,
        GitHubClient(github.settings(), bench.clock, seeded("client"), github.transport()) as client,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(
                Starlette(routes=accounts_routes(bench.ledger, client, Doorkeeper(), SETTINGS))
            ),
            base_url="http://dispatch.test",
        ) as http,
    ):
        yield Desk(bench, github, client, http)


async def test_a_dry_run_says_what_would_be_done_and_changes_nothing(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    said = await desk.ask("allow", "acme", dry_run=True)
    assert said == {
        "steps": [
            f"account acme (number {acme.id}) may run jobs",
            "0 jobs of it that wait go as soon as a Pod is free",
        ],
        "changed": False,
        "refused": "",
    }
    assert (await desk.bench.ledger.allow_list.entries(), await desk.bench.ledger.allow_list.changes()) == ([], [])


async def test_an_account_is_allowed_by_its_number_under_its_login_of_now_and_its_jobs_go(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    await desk.bench.ledger.accounts.enrol(acme.id, "acme", acme.installation_id)
    await desk.bench.queue(job(10, acme.id, repository="acme/app"))
    assert (await desk.bench.claim(1)).outcome is Outcome.EMPTY
    assert (await desk.ask("allow", "ACME"))["changed"]
    assert (await desk.bench.claimed(1)).job_id == 10
    said = await desk.ask("allow", "acme")
    assert (said["changed"], said["steps"]) == (False, [f"account acme (number {acme.id}) is allowed already"])
    page = (await desk.http.get(PATH)).json()
    assert [(one["name"], one["allowed"], one["changed_by"]) for one in page["entries"]] == [("acme", True, "alice")]
    assert [(one["was"], one["became"]) for one in page["changes"]] == [("", "allowed")]
    assert page["access"] == {
        "namespace": "default",
        "service_account": "paddock-dispatch",
        "audience": ACCOUNTS_AUDIENCE,
    }


async def test_a_login_that_changed_hands_means_who_has_it_now(desk: Desk):
    old = desk.github.add_organization("acme", "app")
    await desk.bench.ledger.accounts.enrol(old.id, "acme", old.installation_id)
    await desk.ask("allow", "acme")
    desk.github.rename_account("acme", "acme-incorporated")
    new = desk.github.add_organization("acme", "app")
    assert (await desk.standing(old.id), await desk.standing(new.id)) == ("allowed", "")
    await desk.ask("allow", "acme")
    assert (await desk.standing(old.id), await desk.standing(new.id)) == ("allowed", "allowed")


async def test_a_repository_is_allowed_alone_and_a_name_nobody_has_is_refused_with_the_remedy(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    app = desk.github.state.repository("acme/app")
    assert app is not None
    assert (await desk.ask("allow", "acme/app"))["changed"]
    assert (await desk.standing(acme.id), await desk.standing(acme.id, app.id)) == ("", "allowed")
    for name, remedy in {
        "nobody": "install it there first",
        "acme/nothing": "is the name right",
        "no name!": "write acme",
        "id:7/app": "id:42/id:7",
    }.items():
        assert remedy in (await desk.ask("allow", name))["refused"]
    assert len(await desk.bench.ledger.allow_list.entries()) == 1


async def test_denying_works_while_github_is_away(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    await desk.ask("allow", "acme")
    await desk.client.aclose()
    assert (await desk.ask("deny", "acme", why="they left"))["changed"]
    assert await desk.standing(acme.id) == "denied"


async def test_limits_of_accounts_and_repositories(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    app = desk.github.state.repository("acme/app")
    assert app is not None
    size = {"platform": "macos", "vcpus": 24, "memory_mb": 60_000}
    assert not (await desk.ask("limit", "acme", dry_run=True, **size))["changed"]
    assert await desk.bench.ledger.accounts.get(acme.id) is None
    await desk.ask("limit", "acme", **size)
    assert {one.platform: one.vcpus for one in await desk.bench.ledger.limits.usage(acme.id)}["macos"] == 24
    await desk.ask("limit", "acme/app", platform="macos", vcpus=6, memory_mb=14_336)
    (limit,) = await desk.bench.ledger.allow_list.repository_limits()
    assert (limit.repository_id, limit.vcpus) == (app.id, 6)
    assert (await desk.ask("limit", "acme/app", platform="macos"))["changed"]
    assert await desk.bench.ledger.allow_list.repository_limits() == []
    assert "always has a limit" in (await desk.ask("limit", "acme"))["refused"]
    assert "both" in (await desk.ask("limit", "acme", vcpus=6))["refused"]
    assert "never heard of" in (await desk.ask("limit", "id:7", **size))["refused"]


async def test_weights_and_priorities_of_accounts_and_repositories(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    app = desk.github.state.repository("acme/app")
    assert app is not None
    who = f"account acme (number {acme.id})"
    said = await desk.ask("weigh", "acme", weight=3, dry_run=True)
    assert (said["changed"], said["steps"]) == (
        False,
        [f"{who} gets 3 parts among accounts that wait, each of which has 1 by default"],
    )
    assert await desk.bench.ledger.precedence.all() == []
    assert (await desk.ask("weigh", "acme", weight=3, why="they pay for it"))["changed"]
    assert (await desk.ask("weigh", "acme", priority=-2))["changed"]
    assert (await desk.ask("weigh", "acme/app", weight=2, priority=5))["changed"]
    again = await desk.ask("weigh", "ACME", weight=3)
    assert (again["changed"], again["steps"][0].endswith(" already")) == (False, True)
    page = (await desk.http.get(PATH)).json()
    told = [(one["name"], one["repository_id"], one["weight"], one["priority"]) for one in page["precedence"]]
    assert told == [("acme", 0, 3, -2), ("acme/app", app.id, 2, 5)]
    audited = [(one["was"], one["became"], one["by"], one["why"]) for one in page["changes"]]
    assert audited[-1] == ("", "weight 3", "alice", "they pay for it")
    assert (await desk.ask("weigh", "acme"))["changed"]
    assert not (await desk.ask("weigh", "acme"))["changed"]
    assert [one.name for one in await desk.bench.ledger.precedence.all()] == ["acme/app"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"weight": 0}, "weight must be from 1 to 100, and 0 was given"),
        ({"weight": 101}, "weight must be from 1 to 100, and 101 was given"),
        ({"priority": 11}, "priority must be from -10 to 10, and 11 was given"),
        ({"weight": 2, "priority": -11}, "priority must be from -10 to 10, and -11 was given"),
    ],
)
async def test_a_weight_or_priority_out_of_range_is_refused_by_name(desk: Desk, said: dict[str, int], sentence: str):
    desk.github.add_organization("acme", "app")
    assert (await desk.ask("weigh", "acme", **said))["refused"] == sentence
    assert await desk.bench.ledger.precedence.all() == []


async def test_a_limit_of_the_settings_is_changed_there(desk: Desk):
    capped = desk.github.add_organization("capped")
    await desk.bench.ledger.accounts.enrol(capped.id, "capped", capped.installation_id)
    await ConfiguredLimits(desk.bench.ledger, SETTINGS.limits, desk.bench.clock).keep()
    said = await desk.ask("limit", "capped", platform="macos", vcpus=24, memory_mb=60_000)
    assert "--limit capped/macos" in said["refused"]


@pytest.mark.parametrize(("token", "status"), [("", 403), ("forged", 403), ("operator", 403), ("away", 503)])
async def test_without_the_right_token_nothing_is_changed(desk: Desk, token: str, status: int):
    desk.github.add_organization("acme", "app")
    body = {"token": token, "verb": "allow", "name": "acme", "by": "mallory", "dry_run": False}
    answer = await desk.http.post(PATH, json=body)
    assert answer.status_code == status
    assert await desk.bench.ledger.allow_list.entries() == []


@pytest.mark.parametrize(
    "change", [{"verb": "own"}, {"name": "a\x00b"}, {"vcpus": 0}, {"weight": "much"}, {"by": "x" * 300}]
)
async def test_a_malformed_change_names_its_field(desk: Desk, change: dict[str, Any]):
    body = {"token": "good", "verb": "allow", "name": "acme", "by": "alice"} | change
    answer = await desk.http.post(PATH, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, next(iter(change)))


async def test_the_first_accounts_are_named_in_the_settings_and_a_denial_stays(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    first = ConfiguredAccounts(desk.bench.ledger, desk.client, ["acme", "later", "id:42"], desk.bench.clock)
    assert await first.look() == 1  # `later` has not installed the App yet
    assert (await desk.standing(acme.id), await desk.standing(42)) == ("allowed", "allowed")
    later = desk.github.add_organization("later")
    assert await first.look() == 0
    assert await desk.standing(later.id) == "allowed"
    await desk.ask("deny", "acme")
    again = ConfiguredAccounts(desk.bench.ledger, desk.client, ["acme", "later", "id:42"], desk.bench.clock)
    assert await again.look() == 0
    assert await desk.standing(acme.id) == "denied"


async def test_a_login_of_the_settings_that_changes_hands_brings_nothing_along(desk: Desk):
    old = desk.github.add_organization("acme", "app")
    await ConfiguredAccounts(desk.bench.ledger, desk.client, ["acme"], desk.bench.clock).look()
    desk.github.rename_account("acme", "acme-incorporated")
    new = desk.github.add_organization("acme", "app")
    await ConfiguredAccounts(desk.bench.ledger, desk.client, ["acme"], desk.bench.clock).look()
    assert (await desk.standing(old.id), await desk.standing(new.id)) == ("allowed", "")


async def test_dying_between_binding_a_name_and_allowing_it_is_mended_by_the_next_start(desk: Desk):
    acme = desk.github.add_organization("acme", "app")
    await desk.bench.ledger.allow_list.bind("acme", acme.id)
    await ConfiguredAccounts(desk.bench.ledger, desk.client, ["acme"], desk.bench.clock).look()
    assert await desk.standing(acme.id) == "allowed"


async def test_a_limit_of_the_settings_stays_with_the_account_when_logins_change(desk: Desk):
    ledger, limits = desk.bench.ledger, ConfiguredLimits(desk.bench.ledger, SETTINGS.limits, desk.bench.clock)
    await ledger.accounts.enrol(1, "capped", 501)
    assert await limits.keep() == 1
    await ledger.accounts.enrol(1, "renamed", 501)
    await ledger.accounts.enrol(2, "capped", 502)
    await ledger.limits.set(1, "macos", vcpus=600, memory_mb=600_000, by="test", why="drifted")
    assert await limits.keep() == 1
    macos = {one.account_id: one.vcpus for one in await ledger.limits.usage() if one.platform == "macos"}
    assert macos == {1: 6, 2: 12}
