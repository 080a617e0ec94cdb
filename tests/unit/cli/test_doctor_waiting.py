"""`paddock doctor` on what keeps jobs waiting until a person does something."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from unit.cli.scene import Scene
from unit.cli.test_doctor import checks

from paddock.cli.doctor.cluster import source_checks
from paddock.cli.doctor.waiting import job_checks, node_checks
from paddock.kube.builtin import Node, NodeCondition, NodeStatus, Pod
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import AUDIENCE, FLEET_LABEL, RUNNER_LABEL

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def waiting(number: int, reason: str, why: str = "Next in line.", login: str = "acme") -> dict[str, Any]:
    return {"job_id": number, "login": login, "repository": f"{login}/app", "reason": reason, "why": why}


def node(*conditions: tuple[str, str, str], name: str = "mac-1", ours: bool = True) -> Node:
    since = NOW - timedelta(hours=30)
    said = {"Ready": ("True", "all is well")} | {kind: (status, message) for kind, status, message in conditions}
    status = NodeStatus(
        conditions=tuple(
            NodeCondition(type=kind, status=state, message=message, last_transition_time=since)
            for kind, (state, message) in said.items()
        ),
        allocatable={"tuist.dev/vm": "2"},
    )
    return Node(metadata=ObjectMeta(name=name, labels={FLEET_LABEL: "blue"} if ours else {}), status=status)


def test_a_pod_whose_token_is_for_somebody_else_is_a_problem_with_its_remedy(looked_at: Scene) -> None:
    token = {"serviceAccountToken": {"audience": "somebody-else", "path": "token"}}
    pod = {
        "metadata": {"name": "by-hand", "namespace": "default", "labels": {RUNNER_LABEL: "true"}},
        "spec": {
            "containers": [{"name": "runner", "image": "runner:1"}],
            "volumes": [{"name": "token", "projected": {"sources": [token]}}],
        },
    }
    looked_at.cluster.ask(lambda client: client.create(pod, Pod.RESOURCE))
    found = checks(looked_at)["token audience"]
    assert found["state"] == "problem"
    assert found["found"] == f"1 of 3 runner Pods carry no token for {AUDIENCE}, such as by-hand"
    assert "delete those made by hand" in found["fix"]


def test_an_unknown_account_is_named_with_the_command_that_allows_it() -> None:
    jobs = [waiting(1, "not_allowed", login="bolt"), waiting(2, "in_line"), waiting(3, "not_allowed", login="bolt")]
    (check,) = job_checks(jobs)
    assert (check.state, check.about, check.fix) == ("problem", "account bolt", "paddock accounts allow bolt")
    assert check.found == "it is not on the allow list, so that 2 jobs are kept and not run"


def test_a_refused_group_is_one_check_whatever_the_jobs_and_their_pauses() -> None:
    sentence = "acme has no runner group 'macs': create it, or correct the pool's spec.runnerGroup"
    jobs = [
        waiting(n, "repository_resting", f"Repository acme/app rests until {n}, because minting fails: {sentence}")
        for n in (1, 2)
    ]
    (check,) = job_checks(jobs)
    assert (check.state, check.about, check.fix) == ("problem", "runners of acme/app", "paddock why job 1")
    assert check.found.startswith("2 jobs are held up: ")
    assert check.found.endswith(sentence)


def test_many_are_folded_and_none_is_good_news() -> None:
    many = job_checks([waiting(n, "not_allowed", login=f"org{n}") for n in range(20)])
    assert len(many) == 6
    assert (many[-1].found, many[-1].fix) == ("15 more like these", "paddock get jobs")
    assert [check.state for check in job_checks([waiting(1, "in_line")])] == ["ok"]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (("ClockSkewed", "True", "30 s apart: set it with sntp"), "set it with sntp"),
        (
            ("Ready", "Unknown", "no status any more"),
            "certificate has expired meanwhile, and the operator brings a new one",
        ),
    ],
)
def test_a_mac_with_a_wrong_clock_or_an_expired_certificate_is_a_problem_with_its_remedy(
    condition: tuple[str, str, str], said: str
) -> None:
    (check,) = node_checks([node(condition), node(name="mac-2"), node(condition, name="linux-1", ours=False)], NOW)
    assert (check.state, check.about, check.fix) == ("problem", "Mac mac-1", "paddock why machine mac-1")
    assert said in check.found


def test_macs_that_are_well_are_one_line_and_none_at_all_is_none() -> None:
    assert [(check.state, check.found) for check in node_checks([node()], NOW)] == [
        ("ok", "1 Nodes, and none complains")
    ]
    assert node_checks([node(ours=False)], NOW) == []


def test_the_command_shows_them(looked_at: Scene) -> None:
    looked_at.ledger.json["queue"] = [waiting(1, "not_allowed", login="bolt")]
    found = checks(looked_at)
    assert (found["account bolt"]["state"], found["account bolt"]["fix"]) == ("problem", "paddock accounts allow bolt")


def test_a_queue_that_cannot_be_read_is_unknown_and_not_passed(scene: Scene) -> None:
    scene.ledger.json["strip"] = {"running": 0, "dispatchable": 0}
    scene.ledger.json.pop("queue")
    assert checks(scene)["waiting jobs"]["state"] == "unknown"


def test_an_account_that_has_no_scale_set_because_it_is_not_listed_is_named_beside_those_that_are_listened_to():
    listening = {"repository": "", "login": "bolt", "pool": "macs", "state": "Listening", "since": "", "sentence": ""}
    [well, unheard] = source_checks([listening], ["acme"])
    assert (well.about, unheard.about, unheard.fix) == ("scale sets", "account acme", "paddock accounts allow acme")
    assert source_checks([], ["acme"]) == [unheard]
    assert source_checks([]) == []
    refused = {**listening, "state": "Refused", "sentence": "there is no runner group"}
    assert [check.about for check in source_checks([refused], ["acme"])] == ["account acme", "scale set of bolt"]
