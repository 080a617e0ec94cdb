"""The REST API: who may do what, how it refuses, how it pages, what it limits."""

from pathlib import Path

import httpx2
import jwt
import pytest
from unit.simulator.github.rig import LABELS, Rig

from paddock.cli import github_app
from paddock.simulator.github import Fault, FaultKind, new_app_key

RUNNERS = "/orgs/acme/actions/runners"


# Authentication


async def test_the_app_sees_its_installations(rig: Rig):
    answer = await rig.as_app("GET", "/app/installations")
    assert [(entry["account"]["login"], entry["target_type"]) for entry in answer.json()] == [
        ("acme", "Organization"),
        ("bob", "User"),
    ]


@pytest.mark.parametrize(
    ("made", "status"),
    [
        ({"lasts": 700, "issued": 0}, 401),  # longer than ten minutes
        ({"issued": -700}, 401),  # over
        ({"issued": 120, "lasts": 60}, 401),  # from the future
        ({"iss": "1"}, 404),  # another App
        ({"issued": 30, "lasts": 60}, 200),  # a clock that is a little ahead
    ],
)
async def test_the_times_and_the_issuer_of_an_app_jwt_are_checked(rig: Rig, made: dict, status: int):
    headers = {"Authorization": f"Bearer {rig.app_jwt(**made)}"}
    assert (await rig.http.get("/app", headers=headers)).status_code == status


async def test_the_app_may_sign_by_its_client_id(rig: Rig):
    headers = {"Authorization": f"Bearer {rig.app_jwt(iss=rig.github.state.client_id)}"}
    assert (await rig.http.get("/app", headers=headers)).status_code == 200


async def test_a_jwt_of_another_key_or_algorithm_is_refused(rig: Rig):
    now = int(rig.clock.now().timestamp())
    claims = {"iat": now, "exp": now + 60, "iss": rig.github.app_id}
    for forged in (
        jwt.encode(claims, new_app_key(), algorithm="RS256"),
        jwt.encode(claims, "0" * 32, algorithm="HS256"),
        jwt.encode(claims, "", algorithm="none"),
        "nonsense",
    ):
        answer = await rig.http.get("/app", headers={"Authorization": f"Bearer {forged}"})
        assert answer.status_code == 401


async def test_a_token_works_for_an_hour(rig: Rig):
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    rig.clock.step(3599)
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    rig.clock.step(1)
    assert (await rig.call("GET", RUNNERS)).status_code == 401


async def test_neither_credential_opens_the_other_ones_doors(rig: Rig):
    assert (await rig.as_app("GET", RUNNERS)).status_code == 401
    assert (await rig.call("GET", "/app/installations")).status_code == 401
    assert (await rig.http.get(RUNNERS)).status_code == 401


async def test_another_installation_s_places_are_not_there(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    assert (await rig.call("GET", RUNNERS, as_="bob")).status_code == 404
    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}", as_="bob")).status_code == 404


async def test_a_suspended_installation_gets_nothing(rig: Rig):
    await rig.call("GET", RUNNERS)
    rig.github.suspend("acme")
    assert (await rig.call("GET", RUNNERS)).status_code == 403
    number = rig.github.account("acme").installation_id
    assert (await rig.as_app("POST", f"/app/installations/{number}/access_tokens")).status_code == 403


# Runners


async def test_a_mint_gives_a_runner_and_its_config(rig: Rig):
    answer = await rig.mint(name="mac-1")
    assert answer.status_code == 201
    runner = answer.json()["runner"]
    assert (runner["name"], runner["status"], runner["busy"]) == ("mac-1", "offline", False)
    assert [label["name"] for label in runner["labels"]] == LABELS
    assert answer.json()["encoded_jit_config"]


async def test_a_name_is_taken_for_as_long_as_its_runner_is_registered(rig: Rig):
    runner = (await rig.mint(name="mac-1")).json()["runner"]
    assert (await rig.mint(name="MAC-1")).status_code == 409
    assert (await rig.call("DELETE", f"{RUNNERS}/{runner['id']}")).status_code == 204
    assert (await rig.mint(name="mac-1")).status_code == 201, "its runner is gone, and the name free again"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x" * 65},
        {"name": ""},
        {"labels": []},
        {"labels": ["a"] * 101},
        {"labels": ["", "a"]},
        {"labels": "a"},
        {"runner_group_id": "1"},
    ],
)
async def test_what_a_mint_does_not_accept_is_422(rig: Rig, fields: dict):
    assert (await rig.mint(**fields)).status_code == 422
    assert rig.github.runners() == []


async def test_a_person_has_runners_only_at_repositories(rig: Rig):
    assert (await rig.mint("orgs/bob", as_="bob")).status_code == 404
    assert (await rig.mint("repos/bob/toy", as_="bob")).status_code == 201


async def test_a_permission_that_is_missing_is_403(rig: Rig):
    rig.github.account("acme").permissions = {"organization_self_hosted_runners": "read"}
    assert (await rig.mint()).status_code == 403
    assert (await rig.mint("repos/acme/app")).status_code == 403
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    assert (await rig.call("GET", "/repos/acme/app/actions/runs")).status_code == 403


async def test_runners_are_listed_in_pages_with_links(rig: Rig):
    for _ in range(35):
        await rig.mint()
    first = await rig.call("GET", RUNNERS)
    assert (len(first.json()["runners"]), first.json()["total_count"]) == (30, 35)
    second = await rig.call("GET", first.links["next"]["url"])
    assert len(second.json()["runners"]) == 5
    assert "next" not in second.links
    whole = await rig.call("GET", RUNNERS, params={"per_page": 500})
    assert len(whole.json()["runners"]) == 35


async def test_lists_lag_behind(rig: Rig):
    rig.github.behaviour.list_lag = 30
    runner = (await rig.mint()).json()["runner"]
    assert (await rig.call("GET", RUNNERS)).json()["total_count"] == 0
    rig.clock.step(30)
    assert (await rig.call("GET", RUNNERS)).json()["total_count"] == 1
    await rig.call("DELETE", f"{RUNNERS}/{runner['id']}")
    assert (await rig.call("GET", RUNNERS)).json()["total_count"] == 1
    assert (await rig.call("GET", f"{RUNNERS}/{runner['id']}")).status_code == 404
    rig.clock.step(30)
    assert (await rig.call("GET", RUNNERS)).json()["total_count"] == 0


async def test_a_busy_runner_cannot_be_deleted(rig: Rig):
    _, session = await rig.running()
    assert (await rig.call("DELETE", f"{RUNNERS}/{session.runner_id}")).status_code == 422
    session.finish()
    assert (await rig.call("DELETE", f"{RUNNERS}/{session.runner_id}")).status_code == 404


async def test_a_delisted_runner_is_not_shown_while_its_job_goes_on(rig: Rig):
    job, session = await rig.running()
    rig.github.delist(session.runner_id)
    assert (await rig.call("GET", RUNNERS)).json()["total_count"] == 0
    session.finish()
    assert rig.github.job(job.id).conclusion == "success"


# Jobs and runs


async def test_a_run_is_in_progress_as_soon_as_one_of_its_jobs_is(rig: Rig):
    first = rig.github.submit("acme/app", labels=LABELS, name="lint")
    rig.github.submit("acme/app", labels=LABELS, name="test", run_id=first.run_id)

    async def runs(status: str) -> list[int]:
        answer = await rig.call("GET", "/repos/acme/app/actions/runs", params={"status": status})
        return [run["id"] for run in answer.json()["workflow_runs"]]

    assert await runs("queued") == [first.run_id]
    session = await rig.runner()
    await session.next_job(10)
    assert (await runs("queued"), await runs("in_progress")) == ([], [first.run_id])
    listed = (await rig.call("GET", f"/repos/acme/app/actions/runs/{first.run_id}/jobs")).json()
    assert [job["name"] for job in listed["jobs"]] == ["lint", "test"]
    assert {job["status"] for job in listed["jobs"]} == {"in_progress", "queued"}


async def test_steps_show_the_progress_of_a_job(rig: Rig):
    job, session = await rig.running()
    session.progress()
    session.progress()
    shown = (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).json()
    assert [step["status"] for step in shown["steps"]] == ["completed", "completed", "in_progress"]
    assert shown["runner_name"] == session.name


async def test_a_running_job_may_look_queued_for_a_while(rig: Rig):
    job, _ = await rig.running()
    rig.github.flap(job.id, 30)
    shown = (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).json()
    assert (shown["status"], shown["runner_name"]) == ("queued", None)
    rig.clock.step(31)
    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).json()["status"] == "in_progress"


async def test_a_forgotten_job_is_404(rig: Rig):
    job, session = await rig.running()
    session.finish()
    rig.github.behaviour.job_kept = 100
    rig.clock.step(101)
    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).status_code == 404
    other = rig.github.submit("acme/app", labels=LABELS)
    rig.github.prune_job(other.id)
    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{other.id}")).status_code == 404


# Limits


async def test_every_answer_tells_the_budget_and_the_time(rig: Rig):
    answer = await rig.call("GET", RUNNERS)
    assert answer.headers["x-ratelimit-remaining"] == "4999"
    assert answer.headers["date"] == "Mon, 01 Jun 2026 12:00:00 GMT"
    minted = await rig.mint()
    assert minted.headers["x-ratelimit-resource"] == "actions_runner_registration"
    assert (await rig.call("GET", RUNNERS)).headers["x-ratelimit-remaining"] == "4998"


async def test_an_hour_s_budget_ends_and_comes_back(rig: Rig):
    rig.github.behaviour.calls_per_hour = 2
    codes = [(await rig.call("GET", RUNNERS)).status_code for _ in range(3)]
    assert codes == [200, 200, 403]
    spent = await rig.call("GET", RUNNERS)
    assert spent.headers["x-ratelimit-remaining"] == "0"
    rig.clock.step(3600 - 1)
    assert int(spent.headers["x-ratelimit-reset"]) - rig.clock.now().timestamp() == 1
    assert (await rig.call("GET", RUNNERS)).status_code == 403


async def test_a_minute_has_points_for_180_mints(rig: Rig):
    await rig.call("GET", RUNNERS)
    rig.clock.step(60)
    codes = [(await rig.mint()).status_code for _ in range(180)]
    assert set(codes) == {201}
    refused = await rig.mint()
    assert refused.status_code == 403
    assert refused.headers["retry-after"] == "60"
    rig.clock.step(60)
    assert (await rig.mint()).status_code == 201


# Faults on order


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FaultKind.SERVER_ERROR, 500),
        (FaultKind.BAD_GATEWAY, 502),
        (FaultKind.UNAVAILABLE, 503),
        (FaultKind.UNAUTHENTICATED, 401),
        (FaultKind.FORBIDDEN, 403),
        (FaultKind.NOT_FOUND, 404),
        (FaultKind.CONFLICT, 409),
        (FaultKind.INVALID, 422),
        (FaultKind.RATE_LIMITED, 429),
        (FaultKind.SECONDARY_LIMIT, 403),
        (FaultKind.PRIMARY_LIMIT, 403),
    ],
)
async def test_a_fault_strikes_the_call_it_was_ordered_for_once(rig: Rig, kind: FaultKind, status: int):
    await rig.call("GET", RUNNERS)
    rig.github.inject(Fault(kind=kind, operations=("mint",)))
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    assert (await rig.mint()).status_code == status
    assert rig.github.runners() == []
    assert (await rig.mint()).status_code == 201


async def test_an_answer_can_be_lost_after_the_mint_happened(rig: Rig):
    await rig.call("GET", RUNNERS)
    rig.github.inject(Fault(kind=FaultKind.LOST, operations=("mint",), after_effect=True))
    with pytest.raises(httpx2.ReadError):
        await rig.mint(name="mac-1")
    assert [runner.name for runner in rig.github.runners()] == ["mac-1"]
    assert (await rig.mint(name="mac-1")).status_code == 409
    assert rig.github.audit[-2].effect


async def test_a_list_can_lack_an_entry_or_all_of_them(rig: Rig):
    for _ in range(3):
        await rig.mint()
    rig.github.inject(Fault(kind=FaultKind.SHORT_LIST))
    short = (await rig.call("GET", RUNNERS)).json()
    assert (short["total_count"], len(short["runners"])) == (3, 2)
    rig.github.inject(Fault(kind=FaultKind.EMPTY_LIST))
    assert (await rig.call("GET", RUNNERS)).json() == {"total_count": 0, "runners": []}


async def test_a_slow_answer_takes_its_time(rig: Rig):
    await rig.call("GET", RUNNERS)
    rig.github.inject(Fault(kind=FaultKind.SLOW, delay=7.0))
    before = rig.clock.monotonic()
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    assert rig.clock.monotonic() - before == 7.0


async def test_rates_make_calls_fail_now_and_then(rig: Rig):
    await rig.call("GET", RUNNERS)
    rig.github.behaviour.server_error = 0.3
    codes = [(await rig.call("GET", RUNNERS)).status_code for _ in range(100)]
    assert 10 < sum(code >= 500 for code in codes) < 60


async def test_the_app_has_the_rights_that_our_install_page_asks_for_and_no_more(rig: Rig):
    page = (Path(__file__).parents[4] / "docs" / "install.md").read_text()
    assert (
        page.count(
            "| Organisation permission | Self-hosted runners: read and write |\n| Repository permissions | Actions: read. "
        )
        == 2
    )
    assert rig.github.account("acme").permissions == dict(github_app.PERMISSIONS)
    assert rig.github.account("bob").permissions == {**github_app.PERMISSIONS, "administration": "write"}
    assert (await rig.call("GET", RUNNERS)).status_code == 200
    assert (await rig.call("GET", "/repos/acme/app/actions/runners")).status_code == 403
    assert (await rig.mint("repos/acme/app")).status_code == 403
