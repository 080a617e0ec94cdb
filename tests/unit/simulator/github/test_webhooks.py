"""Webhooks: what they say, when they come, what goes wrong with them, and the log."""

import asyncio
import json
from typing import Any

import pytest
from gidgethub import sansio
from unit.simulator.github.rig import LABELS, Rig

from paddock.simulator.github import Fault, FaultKind

LOG = "/app/hook/deliveries"


async def test_the_life_of_a_job_is_told_in_three_events(rig: Rig):
    job, session = await rig.running(name="test-ios", workflow="CI")
    await rig.deliver()
    session.finish()
    assert await rig.deliver() == ["queued", "in_progress", "completed"]
    queued, started, completed = (payload["workflow_job"] for payload in rig.receiver.payloads)
    assert (queued["runner_name"], queued["steps"], queued["completed_at"]) == (None, [], None)
    assert (started["runner_name"], started["runner_id"]) == (session.name, session.runner_id)
    assert (completed["conclusion"], completed["status"]) == ("success", "completed")
    assert {each["id"] for each in (queued, started, completed)} == {job.id}


async def test_the_payload_names_everybody(rig: Rig):
    rig.github.submit("acme/app", labels=LABELS, branch="main")
    rig.github.submit("bob/toy", labels=LABELS)
    await rig.deliver()
    payload = next(each for each in rig.receiver.payloads if each["repository"]["full_name"] == "acme/app")
    assert payload["repository"]["owner"]["login"] == payload["organization"]["login"] == "acme"
    assert payload["installation"]["id"] == rig.github.account("acme").installation_id
    assert payload["workflow_job"]["labels"] == LABELS
    assert len(payload["workflow_job"]["head_sha"]) == 40
    personal = next(each for each in rig.receiver.payloads if each["repository"]["full_name"] == "bob/toy")
    assert "organization" not in personal


async def test_the_signature_is_over_the_raw_bytes(rig: Rig):
    rig.github.submit("acme/app", labels=LABELS)
    await rig.deliver()
    headers, body = rig.receiver.received[0]
    secret = rig.github.webhook_secret.reveal()
    event = sansio.Event.from_http(headers, body, secret=secret)
    assert (event.event, event.data["action"]) == ("workflow_job", "queued")
    assert headers["x-github-hook-installation-target-type"] == "integration"
    sansio.validate_event(body, signature=headers["x-hub-signature"], secret=secret)


async def test_a_job_cancelled_while_it_waits_is_told_without_a_runner(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.github.cancel(job.id)
    await rig.deliver()
    completed = next(each for each in rig.receiver.payloads if each["action"] == "completed")["workflow_job"]
    assert (completed["conclusion"], completed["runner_name"], completed["runner_id"]) == ("cancelled", None, None)


async def test_a_suspended_installation_is_told_of_that_and_of_no_job(rig: Rig):
    rig.github.suspend("acme")
    rig.github.submit("acme/app", labels=LABELS)
    await rig.deliver()
    assert [(headers["x-github-event"], body) for headers, body in _actions(rig)] == [("installation", "suspend")]


async def test_the_life_of_an_installation_is_told_step_by_step(rig: Rig):
    old = rig.github.account("acme").installation_id
    rig.github.suspend("acme")
    rig.github.suspend("acme", suspended=False)
    rig.github.accept_permissions("acme", checks="write")
    rig.github.give_repository("acme/new")
    rig.github.take_repository("acme/new")
    rig.github.uninstall("acme")
    again = rig.github.install("acme").installation_id
    await rig.deliver()
    told = sorted((headers["x-github-event"], action) for headers, action in _actions(rig))
    assert told == sorted(
        [
            ("installation", "suspend"),
            ("installation", "unsuspend"),
            ("installation", "new_permissions_accepted"),
            ("installation_repositories", "added"),
            ("installation_repositories", "removed"),
            ("installation", "deleted"),
            ("installation", "created"),
        ]
    )
    made = next(body for body in rig.receiver.payloads if body["action"] == "created")
    assert made["installation"]["id"] == again != old
    assert made["installation"]["account"]["login"] == "acme"
    added = next(body for body in rig.receiver.payloads if body["action"] == "added")
    assert [one["full_name"] for one in added["repositories_added"]] == ["acme/new"]


def _actions(rig: Rig) -> list[tuple[Any, str]]:
    return [(headers, json.loads(body)["action"]) for headers, body in rig.receiver.received]


# What goes wrong


async def test_an_event_can_be_lost_without_a_trace(rig: Rig):
    rig.github.inject(Fault(kind=FaultKind.UNSENT, operations=("completed",)))
    _, session = await rig.running()
    session.finish()
    assert sorted(await rig.deliver()) == ["in_progress", "queued"]
    assert {entry["action"] for entry in (await rig.as_app("GET", LOG)).json()} == {"queued", "in_progress"}


async def test_a_delivery_that_does_not_arrive_is_in_the_log_and_can_be_repeated(rig: Rig):
    rig.github.inject(Fault(kind=FaultKind.UNDELIVERED))
    rig.github.submit("acme/app", labels=LABELS)
    assert await rig.deliver() == []
    (entry,) = (await rig.as_app("GET", LOG)).json()
    assert (entry["status_code"], entry["redelivery"]) == (502, False)
    assert (await rig.as_app("POST", f"{LOG}/{entry['id']}/attempts")).status_code == 202
    assert await rig.deliver() == ["queued"]
    newest, oldest = (await rig.as_app("GET", LOG)).json()
    assert (newest["guid"], newest["redelivery"], newest["status"]) == (oldest["guid"], True, "OK")
    assert rig.receiver.received[0][0]["x-github-delivery"] == oldest["guid"]


async def test_a_repeated_delivery_has_the_same_id_and_bytes(rig: Rig):
    rig.github.inject(Fault(kind=FaultKind.REPEATED))
    rig.github.submit("acme/app", labels=LABELS)
    assert await rig.deliver(10) == ["queued", "queued"]
    (first, body), (second, again) = rig.receiver.received
    assert (first["x-github-delivery"], body) == (second["x-github-delivery"], again)


async def test_a_delayed_delivery_tells_the_state_of_its_event(rig: Rig):
    rig.github.inject(Fault(kind=FaultKind.DELAYED, operations=("queued",), delay=3600))
    _, session = await rig.running()
    session.finish()
    assert sorted(await rig.deliver()) == ["completed", "in_progress"]
    await rig.deliver(3600)
    assert rig.receiver.payloads[-1]["workflow_job"]["status"] == "queued"


async def test_completed_can_come_before_in_progress(rig: Rig):
    rig.github.inject(Fault(kind=FaultKind.OVERTAKEN, operations=("in_progress",)))
    _, session = await rig.running()
    assert await rig.deliver() == ["queued"]
    session.finish()
    assert await rig.deliver(10) == ["queued", "completed", "in_progress"]


@pytest.mark.parametrize("habit", ["unsent", "unsent_completed", "undelivered", "repeated", "delayed", "overtaken"])
async def test_each_habit_has_a_rate(rig: Rig, habit: str):
    setattr(rig.github.behaviour, habit, 0.5)
    for _ in range(20):
        _, session = await rig.running()
        await rig.deliver(3)
        session.finish()
    await rig.deliver(3)
    in_order = ["queued", "in_progress", "completed"] * 20
    assert rig.receiver.actions != in_order


async def test_a_rate_of_zero_changes_nothing(rig: Rig):
    for _ in range(5):
        _, session = await rig.running()
        await rig.deliver(3)
        session.finish()
        await rig.deliver(3)
    assert rig.receiver.actions == ["queued", "in_progress", "completed"] * 5


# The receiver's side


async def test_a_refusal_of_the_receiver_is_a_failed_delivery(rig: Rig):
    rig.receiver.status = 503
    rig.github.submit("acme/app", labels=LABELS)
    await rig.deliver()
    (entry,) = (await rig.as_app("GET", LOG)).json()
    assert (entry["status_code"], entry["status"]) == (503, "Invalid HTTP Response: 503")


async def test_a_receiver_that_does_not_answer_is_given_up_on(rig: Rig):
    rig.github.behaviour.delivery_limit = 0.05
    rig.receiver.silent = True
    rig.github.submit("acme/app", labels=LABELS)
    await rig.deliver()
    (entry,) = (await rig.as_app("GET", LOG)).json()
    assert (entry["status_code"], entry["status"]) == (504, "timed out")


# The log


async def test_the_log_is_read_newest_first_by_cursor(rig: Rig):
    for _ in range(7):
        rig.github.submit("acme/app", labels=LABELS)
        await rig.deliver()
    seen: list[int] = []
    url: str | None = f"{LOG}?per_page=3"
    while url is not None:
        page = await rig.as_app("GET", url)
        seen += [entry["id"] for entry in page.json()]
        url = page.links.get("next", {}).get("url")
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 7


async def test_a_delivery_of_long_ago_is_not_repeated(rig: Rig):
    rig.github.submit("acme/app", labels=LABELS)
    await rig.deliver()
    (entry,) = (await rig.as_app("GET", LOG)).json()
    rig.clock.step(4 * 86400)
    assert (await rig.as_app("POST", f"{LOG}/{entry['id']}/attempts")).status_code == 422
    assert (await rig.as_app("POST", f"{LOG}/1/attempts")).status_code == 404


async def test_a_delivery_under_way_at_a_restart_is_not_lost(rig: Rig):
    rig.receiver.silent = True
    rig.github.submit("acme/app", labels=LABELS)
    rig.clock.step(5)
    sending = asyncio.create_task(rig.github.deliver_due())
    while not rig.receiver.received:
        await asyncio.sleep(0)
    saved = rig.github.to_json()
    sending.cancel()
    assert b'"outgoing":[{' in saved
