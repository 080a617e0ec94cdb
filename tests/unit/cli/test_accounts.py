"""`paddock accounts`: the plan first, then the change, with a token that the cluster gave for it."""

import json
from typing import Any

import pytest
from unit.cli.scene import Scene

from paddock.kube.builtin import ServiceAccount
from paddock.kube.objects import ObjectMeta

ACCESS = {"namespace": "default", "service_account": "paddock-dispatch", "audience": "paddock-accounts"}


def entry(name: str, account: int, repository: int = 0, *, allowed: bool = True) -> dict[str, Any]:
    return {
        "account_id": account,
        "repository_id": repository,
        "allowed": allowed,
        "name": name,
        "changed_at": "2026-11-16T08:00:00Z",
        "changed_by": "alice",
        "changed_why": "a customer",
    }


def change(number: int, was: str, became: str) -> dict[str, Any]:
    return {
        "change_id": number,
        "at": "2026-11-16T08:00:00Z",
        "account_id": 1,
        "repository_id": 0,
        "name": "acme",
        "subject": "list",
        "was": was,
        "became": became,
        "by": "alice",
        "why": "a customer",
    }


@pytest.fixture
def listed(scene: Scene) -> Scene:
    scene.cluster.create(ServiceAccount(metadata=ObjectMeta(name="paddock-dispatch", namespace="default")))
    scene.ledger.json["allow-list"] = {
        "entries": [entry("acme", 1), entry("acme/secret", 1, 7, allowed=False)],
        "repository_limits": [],
        "changes": [change(1, "", "allowed")],
        "access": ACCESS,
    }
    steps = ["account bolt (number 2) may run jobs", "3 jobs of it that wait go as soon as a Pod is free"]
    scene.ledger.answers = [(200, {"steps": steps, "changed": True, "refused": ""})]
    return scene


def test_allowing_shows_the_plan_and_changes_with_a_token_and_a_name(listed: Scene):
    done = listed.type("accounts", "allow", "bolt", "--yes", "--why", "a trial")
    assert done.exit_code == 0, done.output
    assert "  1. account bolt (number 2) may run jobs" in done.output
    plan, sent = listed.ledger.posted
    assert (plan["dry_run"], sent["dry_run"]) == (True, False)
    assert (sent["path"], sent["verb"], sent["name"], sent["why"]) == ("/api/v1/allow-list", "allow", "bolt", "a trial")
    assert sent["token"].count(".") == 2
    assert sent["by"]
    assert sent["token"] not in done.output


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 4)])
def test_a_dry_run_and_an_unconfirmed_plan_change_nothing(listed: Scene, words: tuple[str, ...], code: int):
    outcome = listed.type("accounts", "deny", "acme", *words, answer="n\n")
    assert outcome.exit_code == code
    assert "Nothing was changed" in outcome.output
    assert [one["dry_run"] for one in listed.ledger.posted] == [True]


def test_a_refusal_is_one_line_with_its_remedy(listed: Scene):
    listed.ledger.answers = [(200, {"steps": [], "changed": False, "refused": "install the App for bolt first"})]
    outcome = listed.type("accounts", "allow", "bolt", "--yes")
    assert outcome.exit_code == 1
    assert "paddock: install the App for bolt first" in outcome.output


def test_a_token_that_dispatch_does_not_take_is_said(listed: Scene):
    listed.ledger.answers = [(403, {"error": "show a token of another account", "reason": "not_allowed"})]
    outcome = listed.type("accounts", "allow", "bolt", "--yes")
    assert outcome.exit_code == 1
    assert "show a token of another account" in outcome.output


def test_without_the_service_account_the_remedy_is_named(listed: Scene):
    access = {**ACCESS, "service_account": "elsewhere"}
    listed.ledger.json["allow-list"] = {**listed.ledger.json["allow-list"], "access": access}
    outcome = listed.type("accounts", "allow", "bolt", "--yes")
    assert outcome.exit_code == 1
    assert "--accounts-principal" in outcome.output
    assert listed.ledger.posted == []


@pytest.mark.parametrize("name", ["no name!", "id:0", "id:7/app", "-x", "a/b/c"])
def test_what_is_no_name_is_not_sent(listed: Scene, name: str):
    outcome = listed.type("accounts", "allow", "--yes", "--", name)
    assert outcome.exit_code == 2
    assert listed.ledger.posted == []


@pytest.mark.parametrize("words", [(), ("--vcpus", "6"), ("--lift", "--vcpus", "6", "--memory-mb", "9")])
def test_a_limit_is_whole_or_lifted(listed: Scene, words: tuple[str, ...]):
    assert listed.type("accounts", "limit", "acme", *words).exit_code == 2
    assert listed.ledger.posted == []


def test_a_limit_is_sent_with_its_platform(listed: Scene):
    assert listed.type("accounts", "limit", "acme/app", "--vcpus", "6", "--memory-mb", "9", "--yes").exit_code == 0
    sent = listed.ledger.posted[-1]
    assert (sent["verb"], sent["platform"], sent["vcpus"], sent["memory_mb"]) == ("limit", "macos", 6, 9)


@pytest.mark.parametrize(
    "words",
    [(), ("--clear", "--weight", "3"), ("--weight", "0"), ("--weight", "101"), ("--priority", "11"), ("--weight", "x")],
)
def test_a_weight_is_in_its_range_or_cleared(listed: Scene, words: tuple[str, ...]):
    outcome = listed.type("accounts", "weigh", "acme", *words)
    assert outcome.exit_code == 2
    assert "--weight" in outcome.output or "--priority" in outcome.output
    assert listed.ledger.posted == []


@pytest.mark.parametrize(
    ("words", "weight", "priority"),
    [(("--weight", "3"), 3, None), (("--priority", "-2"), None, -2), (("--clear",), None, None)],
)
def test_a_weight_and_a_priority_are_sent_as_given(
    listed: Scene, words: tuple[str, ...], weight: int | None, priority: int | None
):
    outcome = listed.type("accounts", "weigh", "acme/app", *words, "--yes", "--why", "they pay for it")
    assert outcome.exit_code == 0, outcome.output
    sent = listed.ledger.posted[-1]
    assert (sent["verb"], sent["name"], sent["why"]) == ("weigh", "acme/app", "they pay for it")
    assert (sent["weight"], sent["priority"]) == (weight, priority)


def test_the_list_shows_weights_and_priorities_also_of_who_has_no_line_on_it(listed: Scene):
    def said(name: str, account: int, repository: int, weight: int | None, priority: int | None) -> dict[str, Any]:
        return {
            "account_id": account, "repository_id": repository, "name": name, "weight": weight, "priority": priority,
        }  # fmt: skip

    listed.ledger.json["allow-list"] = {
        **listed.ledger.json["allow-list"],
        "precedence": [said("acme", 1, 0, 3, None), said("acme/app", 1, 8, None, 0), said("bolt", 2, 0, 2, -1)],
    }
    outcome = listed.type("accounts", "list", "-o", "json")
    rows = {row["name"]: row for row in json.loads(outcome.output)}
    assert {name: (row["weight"], row["priority"]) for name, row in rows.items()} == {
        "acme": (3, None),
        "acme/secret": (None, None),
        "acme/app": (None, 0),
        "bolt": (2, -1),
    }
    assert (rows["acme/app"]["standing"], rows["bolt"]["standing"]) == ("as its account", "not on the list")
    text = listed.type("accounts", "list").output
    assert "WEIGHT" in text
    assert "PRIORITY" in text


def test_the_list_shows_who_waits_without_being_on_it_and_exits_with_three(listed: Scene):
    seen = listed.ledger.json["accounts"]
    listed.ledger.json["accounts"] = [*seen, {**seen[0], "account_id": 9, "login": "stranger", "queued": 4}]
    outcome = listed.type("accounts", "list", "-o", "json")
    rows = {row["name"]: row for row in json.loads(outcome.output)}
    assert {name: row["standing"] for name, row in rows.items()} == {
        "acme": "allowed",
        "acme/secret": "denied",
        "stranger": "not on the list",
    }
    assert outcome.exit_code == 3
    listed.ledger.json["accounts"] = seen
    wide = listed.type("accounts", "list", "-o", "wide")
    assert wide.exit_code == 0
    assert "nothing → allowed  alice: a customer" in wide.output


def test_changes_are_events(listed: Scene):
    outcome = listed.type("events", "--for", "account/acme")
    assert "account/acme  ListChanged: nothing → allowed, by alice: a customer" in outcome.output
    assert "ListChanged" in listed.type("events").output


def test_an_older_dispatch_without_a_list_is_said(scene: Scene):
    outcome = scene.type("accounts", "list")
    assert outcome.exit_code == 1
    assert "has no allow list: update it" in outcome.output
    assert scene.type("events").exit_code == 0
