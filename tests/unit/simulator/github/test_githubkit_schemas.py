"""githubkit's models are made from GitHub's published schemas: every answer and every event that we use must pass them."""

import re
import warnings
from typing import Any

import pytest
from unit.simulator.github.rig import LABELS, Rig

from paddock.simulator.github.requests import _OPERATIONS, SCALE_SET_OPERATIONS
from paddock.simulator.github.wire_places import API, WEB

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from githubkit_schemas.latest import models, webhooks
    from pydantic import TypeAdapter

NO_BODY = {"delete_runner", "redeliver"}
"""What answers nothing that a schema could judge."""
OF_SCALE_SETS = SCALE_SET_OPERATIONS | {"registration_token"}
"""Partly no part of the published API; `registration_token` is judged by its own test."""


def judged(model: Any, body: Any) -> None:
    """Raises pydantic's ValidationError with every field that is missing or of another kind."""
    TypeAdapter(model).validate_python(body)


async def answers(rig: Rig) -> dict[str, tuple[Any, Any]]:
    """By operation: the model, and an answer."""
    job, _ = await rig.running()
    rig.github.submit("acme/web", labels=LABELS)
    await rig.deliver()
    runner = rig.github.runners()[0].id
    installation = f"/app/installations/{rig.github.account('acme').installation_id}"
    deliveries = (await rig.as_app("GET", "/app/hook/deliveries")).json()
    run = f"/repos/acme/app/actions/runs/{job.run_id}"
    runs_there = models.ReposOwnerRepoActionsRunsGetResponse200
    jobs_there = models.ReposOwnerRepoActionsRunsRunIdJobsGetResponse200
    return {
        "get_app": (models.Integration, await rig.as_app("GET", "/app")),
        "list_installations": (list[models.Installation], await rig.as_app("GET", "/app/installations")),
        "get_installation": (models.Installation, await rig.as_app("GET", installation)),
        "create_token": (models.InstallationToken, await rig.as_app("POST", f"{installation}/access_tokens")),
        "list_deliveries": (list[models.HookDeliveryItem], await rig.as_app("GET", "/app/hook/deliveries")),
        "get_delivery": (
            models.HookDelivery,
            await rig.as_app("GET", f"/app/hook/deliveries/{deliveries[0]['id']}"),
        ),
        "rate_limit": (models.RateLimitOverview, await rig.call("GET", "/rate_limit")),
        "mint": (models.OrgsOrgActionsRunnersGenerateJitconfigPostResponse201, await rig.mint()),
        "list_runners": (
            models.OrgsOrgActionsRunnersGetResponse200,
            await rig.call("GET", "/orgs/acme/actions/runners"),
        ),
        "get_runner": (models.Runner, await rig.call("GET", f"/orgs/acme/actions/runners/{runner}")),
        "list_groups": (
            models.OrgsOrgActionsRunnerGroupsGetResponse200,
            await rig.call("GET", "/orgs/acme/actions/runner-groups"),
        ),
        "get_repository": (models.FullRepository, await rig.call("GET", "/repos/acme/app")),
        "get_job": (models.Job, await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")),
        "list_runs": (runs_there, await rig.call("GET", "/repos/acme/app/actions/runs")),
        "get_run": (models.WorkflowRun, await rig.call("GET", run)),
        "list_jobs": (jobs_there, await rig.call("GET", f"{run}/jobs")),
    }


async def test_every_answer_that_we_use_passes_githubs_schema(rig: Rig):
    found = await answers(rig)
    assert set(found) == {name for _, name, _ in _OPERATIONS} - NO_BODY - OF_SCALE_SETS
    for operation, (model, answer) in found.items():
        assert answer.is_success, (operation, answer.text)
        judged(model, answer.json())


async def test_refusals_and_registration_tokens_pass_githubs_schema(rig: Rig):
    token = await rig.call("POST", "/orgs/acme/actions/runners/registration-token")
    judged(models.AuthenticationToken, token.json())
    judged(models.BasicError, (await rig.call("GET", "/repos/acme/none")).json())
    judged(models.ValidationError, (await rig.mint(runner_group_id=99)).json())


async def test_the_judge_notices_a_field_that_is_missing(rig: Rig):
    run = (await answers(rig))["get_run"][1].json()
    del run["repository"]["trees_url"]
    with pytest.raises(ValueError, match="trees_url"):
        judged(models.WorkflowRun, run)


async def test_every_event_that_we_are_sent_passes_githubs_schema(rig: Rig):
    github = rig.github
    github.protect("acme/app", "production")
    held = github.submit("acme/app", labels=LABELS, environment="production")
    github.approve(held.id)
    github.cancel(held.id)
    await rig.running()
    github.suspend("acme")
    github.suspend("acme", suspended=False)
    github.accept_permissions("acme", checks="read")
    github.give_repository("acme/new")
    github.take_repository("acme/new")
    github.transfer_repository("acme/web", "bob")
    github.rename_account("acme", "acme-inc")
    github.rename_account("bob", "bobby")
    github.submit("acme-inc/app", labels=LABELS)
    github.submit("bobby/toy", labels=LABELS)
    github.uninstall("acme-inc")
    github.install("acme-inc")
    for _ in range(10):
        await rig.deliver(60.0)

    seen: set[str] = set()
    kinds = {
        "workflow_job": webhooks.workflow_job_action_types,
        "installation": webhooks.installation_action_types,
        "installation_repositories": webhooks.installation_repositories_action_types,
        "installation_target": {"renamed": webhooks.InstallationTargetEvent},
    }
    for (headers, _), payload in zip(rig.receiver.received, rig.receiver.payloads, strict=True):
        event = headers["x-github-event"]
        judged(kinds[event][payload["action"]], payload)
        seen.add(f"{event} {payload['action']}")
    assert seen >= {
        "workflow_job waiting",
        "workflow_job queued",
        "workflow_job in_progress",
        "workflow_job completed",
        "installation created",
        "installation deleted",
        "installation suspend",
        "installation unsuspend",
        "installation new_permissions_accepted",
        "installation_repositories added",
        "installation_repositories removed",
        "installation_target renamed",
    }


async def test_every_address_in_answers_and_events_leads_back_to_where_it_was_asked(rig: Rig):
    texts = [answer.text for _, answer in (await answers(rig)).values()]
    texts += [body.decode() for _, body in rig.receiver.received]
    urls = {url for text in texts for url in re.findall(r'"(https?://[^"]*)"', text)}

    assert not [text for text in texts if API in text or WEB in text]
    assert len(urls) > 100
    strangers = {url for url in urls if not url.startswith("http://127.0.0.1/")}
    assert strangers <= {"https://paddock.example.com"}


async def test_a_client_that_follows_an_address_of_an_answer_arrives(rig: Rig):
    job, _ = await rig.running()
    answer = (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).json()

    for name in ("url", "run_url"):
        followed = await rig.call("GET", answer[name])
        assert followed.status_code == 200, name
    run = (await rig.call("GET", answer["run_url"])).json()
    assert (await rig.call("GET", run["jobs_url"])).json()["jobs"][0]["id"] == job.id
    assert (await rig.call("GET", run["repository"]["url"])).json()["full_name"] == "acme/app"
