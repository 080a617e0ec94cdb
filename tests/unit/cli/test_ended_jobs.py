"""`paddock get jobs --ended`: what is asked of the ledger, and how its answer is shown."""

import json
from datetime import timedelta
from typing import Any

import pytest
from unit.cli.scene import DONE_JOB, NOW, Scene

from paddock.base.clock import rfc3339

LONG_AGO = rfc3339(NOW - timedelta(days=400))


def summed(name: str, held: float | None = None, euros: float | None = None, **results: int) -> dict[str, Any]:
    """As dispatch gives it: `held` are seconds of whole Macs."""
    times = {"waited_p50": 20.0, "waited_p95": 300.0, "ran_p50": 600.0, "ran_p95": 1800.0}
    jobs = sum(results.values())
    pods = {"mac_pod_seconds": {"macs": 2 * held}} if held else {"mac_pod_seconds": {}}
    cost = {"mac_seconds": held, "euros": euros, "unpriced": 0, "mac_pod_price": {}}
    return {"name": name, "jobs": jobs, "results": results, "since": rfc3339(NOW), **pods, **cost, **times}


def answer(scene: Scene, *sums: dict[str, Any], counted: str = LONG_AGO, kept: str | None = LONG_AGO) -> None:
    scene.ledger.json["ended"] = {"by": "account", "counted_since": counted, "kept_since": kept, "sums": list(sums)}


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_sums_have_results_waits_runs_mac_minutes_and_euros(scene: Scene):
    answer(
        scene,
        summed("acme", 2700.0, 0.2175, success=1, failure=1, timed_out=1),
        summed("bob", 300.0, 0.0242, success=1, cancelled=1, neutral=1),
        summed("penguin", success=2),
    )
    shown = lines(scene.type("get", "jobs", "--ended", "--by", "account").output)
    assert shown == [
        "ACCOUNT JOBS SUCCEEDED FAILED CANCELLED WAITED P50 P95 RAN P50 P95 MAC MIN EUROS",
        "acme 3 1 2 0 20 s 5 min 10 min 30 min 45.0 0.22",
        "bob 3 1 0 1 20 s 5 min 10 min 30 min 5.0 0.02",
        "penguin 2 2 0 0 20 s 5 min 10 min 30 min - -",
    ]
    text = scene.type("get", "jobs", "--ended", "--by", "account", "-o", "json").output
    whole = {one["name"]: (one["mac_minutes"], one["euros"]) for one in json.loads(text)["items"]}
    assert whole == {"acme": (45.0, 0.2175), "bob": (5.0, 0.0242), "penguin": (None, None)}


def test_jobs_whose_price_was_not_recorded_are_told_beside_the_table(scene: Scene):
    answer(scene, {**summed("acme", 2700.0, 0.1, success=3), "unpriced": 2})
    outcome = scene.type("get", "jobs", "--ended", "--by", "account", "-o", "json")
    assert "of 2 jobs the price of their Mac was not recorded: they are in MAC MIN and not in EUROS" in outcome.stderr
    assert json.loads(outcome.stdout)["items"]


def test_what_is_asked_for_is_what_the_ledger_counts(scene: Scene):
    answer(scene)
    nothing = scene.type("get", "jobs", "--ended", "--by", "repository").output
    assert nothing.strip() == "No repositories with jobs that ended in the last 24 h 00 min."
    flags = ("--since", "7d", "--account", "acme", "--repository", "acme/app")
    nothing = scene.type("get", "jobs", "--ended", "--by", "account", *flags).output
    assert nothing.strip() == "No accounts with jobs that ended of account acme of repository acme/app in the last 7 d."
    scene.ledger.json["ended/jobs"] = []
    scene.type("get", "jobs", "--ended", *flags)
    scene.type("get", "jobs", "--ended")
    of = "window=604800&account=acme&repository=acme%2Fapp"
    assert [path for path in scene.ledger.asked if path.startswith(("ended", "recent"))] == [
        "ended?by=repository&window=86400",
        f"ended?by=account&{of}",
        f"ended/jobs?limit=1000&{of}",
        "recent?limit=1000",
    ]


def test_a_job_has_the_cost_that_dispatch_says_and_no_other(scene: Scene):
    done = scene.ledger.json["recent"][0]
    on_linux = {**done, "job_id": 9, "pool": "penguins", "platform": "linux", "pod_seconds": 3600.0}
    priced = {**done, "pod_seconds": 3600.0, "mac_seconds": 1800.0, "share": 0.5, "price": 0.11, "euros": 0.055}
    scene.ledger.json["recent"] = [priced, on_linux]
    items = json.loads(scene.type("get", "jobs", "--ended", "-o", "json").output)["items"]
    costs = {one["job_id"]: (one["mac_minutes"], one["euros"]) for one in items}
    assert costs == {DONE_JOB: (30.0, 0.055), 9: (None, None)}, "the Macs that are there now cost something else"


def test_sums_that_reach_less_far_back_than_was_asked_say_so_beside_the_table(scene: Scene):
    answer(scene, summed("acme", success=1), kept="2099-01-01T00:00:00Z")
    outcome = scene.type("get", "jobs", "--ended", "--by", "account", "-o", "json")
    assert "the oldest job that the ledger keeps ended at 2099-01-01 00:00 UTC" in outcome.stderr
    assert json.loads(outcome.stdout)["items"], "a script reads nothing of it"
    answer(scene, summed("acme", success=1), counted="2099-01-01T00:00:00Z")
    outcome = scene.type("get", "jobs", "--ended", "--by", "account")
    assert "only those since 2099-01-01 00:00 UTC are counted: take a shorter --since" in outcome.stderr


def test_names_that_the_ledger_left_off_are_told_beside_the_table(scene: Scene):
    answer(scene, summed("acme", success=1), summed("bolt", success=1))
    scene.ledger.json["ended"]["left_off"] = True
    outcome = scene.type("get", "jobs", "--ended", "--by", "account", "-o", "json")
    assert "only the 2 with most of the Macs' time are listed: --account or --repository names one" in outcome.stderr
    assert len(json.loads(outcome.stdout)["items"]) == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--by", "account"), "paddock get jobs --ended --by account"),
        (("--account", "acme"), "are for jobs that ended: paddock get jobs --ended"),
        (("--ended", "--since", "yesterday"), "'yesterday' is no time to look back: write 90m, 24h or 7d"),
        (("--ended", "--since", "5s"), "'5s' is no time to look back"),
        (("--ended", "--since", "999999999d"), "'999999999d' is no time to look back"),
        (("--ended", "--by", "account", "-w"), "sums are not watched"),
    ],
)
def test_a_flag_that_makes_no_sense_is_answered_in_one_sentence(scene: Scene, flags: tuple[str, ...], told: str):
    outcome = scene.type("get", "jobs", *flags)
    assert outcome.exit_code == 2
    assert told in " ".join(outcome.output.split())


@pytest.mark.parametrize(
    "told",
    [
        "account is 'a b': write it as GitHub does, such as acme",
        """account is "it's": write it as GitHub does, such as acme""",
        "account is 'a\\\\b': write it as GitHub does, such as acmé",
    ],
)
def test_what_the_service_refuses_is_told_in_its_own_words(scene: Scene, told: str):
    scene.ledger.refuses["ended"] = told
    outcome = scene.type("get", "jobs", "--ended", "--by", "account", "--account", "a b")
    assert outcome.exit_code == 1
    assert outcome.stderr.strip().endswith(f"refuses that: {told}")


def test_a_refusal_that_is_too_long_to_be_quoted_is_told_as_far_as_it_is(scene: Scene):
    scene.ledger.refuses["ended"] = '"quoted" ' * 40
    outcome = scene.type("get", "jobs", "--ended", "--by", "account")
    assert 'refuses that: "quoted" "quoted"' in outcome.stderr
    assert outcome.stderr.strip().endswith("…")


def test_a_service_that_cannot_count_yet_is_to_be_updated(scene: Scene):
    outcome = scene.type("get", "jobs", "--ended", "--by", "account")
    assert (outcome.exit_code, "does not list ended: update it" in outcome.stderr) == (1, True)
