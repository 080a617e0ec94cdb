"""`paddock doctor`: every problem has its remedy, and what cannot be seen from here is said, not passed."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import structs
from unit.cli.scene import Scene
from unit.cli.test_changing import one
from unit.hosts.made import machine

from paddock.base.clock import SystemClock, rfc3339_micro
from paddock.cli.doctor.cluster import pool_checks, prefix_checks
from paddock.cli.doctor.outside import cloud, github
from paddock.cli.operators_flags import Sweeping
from paddock.hosts.listing import UNLISTED_ZONES, unlisted_zones_note
from paddock.kube.builtin import CustomResourceDefinition, Lease, LeaseSpec, ServiceAccount
from paddock.kube.leader import OPERATOR_LEASE
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCW_SECRET_KEY", "PADDOCK_GITHUB_APP_ID"):
        monkeypatch.delenv(name, raising=False)


def checks(scene: Scene, *words: str) -> dict[str, Any]:
    return {check["about"]: check for check in json.loads(scene.type("doctor", *words, "-o", "json").output)["items"]}


def test_each_part_is_looked_at_and_problems_come_with_a_remedy(looked_at: Scene):
    found = checks(looked_at)
    sound = (
        "cluster",
        "clock",
        "definitions",
        "dispatch service",
        "database",
        "pools",
        "token audience",
        "your rights",
    )
    assert {found[name]["state"] for name in sound} == {"ok"}, found
    assert found["cloud"]["state"] == found["GitHub"]["state"] == "unknown"
    assert (found["fleet blue"]["state"], found["fleet blue"]["fix"]) == ("problem", "paddock why fleet blue")
    assert all(check["fix"] for check in found.values() if check["state"] == "problem")


def test_it_exits_with_three_on_a_problem_and_prints_the_remedy_below_it(looked_at: Scene):
    outcome = looked_at.type("doctor")
    assert outcome.exit_code == 3
    lines = outcome.output.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("✗ fleet blue"))
    assert lines[place + 1].strip() == "→ paddock why fleet blue"


def test_an_operator_that_never_led_or_fell_silent_is_a_problem(scene: Scene):
    assert "none has ever led" in checks(scene)["operator"]["found"]
    assert "kubectl -n default get pods" in checks(scene)["operator"]["fix"]
    now = SystemClock().now()
    spec = LeaseSpec(holder_identity="macs-operator-1_x", lease_duration_seconds=15, renew_time=rfc3339_micro(now))
    lease = scene.cluster.create(Lease(metadata=ObjectMeta(name=OPERATOR_LEASE, namespace="default"), spec=spec))
    assert (checks(scene)["operator"]["state"], checks(scene)["operator"]["found"]) == ("ok", "macs-operator-1 leads")
    old = {"spec": {"renewTime": rfc3339_micro(now - timedelta(minutes=5))}}
    scene.cluster.ask(lambda client: client.merge_patch(Lease, lease.metadata.name, old, namespace="default"))
    assert "was last heard of 5 min ago" in checks(scene)["operator"]["found"]


@pytest.mark.parametrize("elected", [True, False])
def test_a_cloud_that_refuses_the_key_is_a_problem_in_a_cluster_without_any_object(scene: Scene, elected: bool):
    now = rfc3339_micro(SystemClock().now())
    spec = LeaseSpec(holder_identity="macs-operator-1_x", lease_duration_seconds=15, renew_time=now)
    note = {UNLISTED_ZONES: unlisted_zones_note({"nl-ams-1": "zone nl-ams-1 could not be listed: 403"})}
    meta = ObjectMeta(name=OPERATOR_LEASE, namespace="default", annotations=note)
    scene.cluster.create(Lease(metadata=meta, spec=spec if elected else LeaseSpec()))
    found = checks(scene)
    assert found["zone nl-ams-1"]["found"] == "zone nl-ams-1 could not be listed: 403"
    assert "SCW_SECRET_KEY" in found["zone nl-ams-1"]["fix"]
    assert found["operator"]["state"] == "ok"
    assert "zone nl-ams-1 could not be listed: 403" in scene.type("status").output


def test_a_definition_that_lacks_a_field_is_older_than_this_program(scene: Scene):
    name = "runnerpools.tuist.dev"
    spec = one(scene, CustomResourceDefinition, name).spec
    del spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rollout"]
    scene.cluster.ask(
        lambda client: client.merge_patch(CustomResourceDefinition, name, {"spec": {"versions": spec["versions"]}})
    )
    found = checks(scene)["definitions"]
    assert found["state"] == "problem"
    assert f"{name} lacks .spec.rollout" in found["found"]
    assert found["fix"] == "kubectl apply --server-side --force-conflicts -f deploy/crds"


def test_a_database_that_is_away_is_told_apart_from_a_service_that_is_away(scene: Scene):
    scene.ledger.broken = True
    found = checks(scene)
    assert (found["dispatch service"]["state"], found["database"]["state"]) == ("ok", "problem")
    assert "PADDOCK_DSN" in found["database"]["fix"]


def test_what_dispatch_says_of_its_own_ways_is_a_check_each(scene: Scene):
    scene.ledger.json["strip"] = {"running": 0, "dispatchable": 0}
    scene.ledger.json["concerns"] = [
        {"about": "database's TLS", "found": "the DSN has no sslmode", "fix": "end it with ?sslmode=verify-full"},
        {"about": "operator to dispatch", "found": "TLS, by a certificate until tomorrow", "fix": ""},
    ]
    found = checks(scene)
    assert (found["database's TLS"]["state"], found["operator to dispatch"]["state"]) == ("problem", "ok")
    assert "verify-full" in found["database's TLS"]["fix"]


def test_the_accounts_of_the_processes_are_looked_for(looked_at: Scene):
    assert "there is no account of operator" in checks(looked_at, "--as-operator")["operator's rights"]["found"]


def test_every_right_of_a_role_is_asked_as_its_account(scene: Scene):
    account = ServiceAccount(metadata=ObjectMeta(name="paddock-dispatch", namespace="default"))
    scene.cluster.create(account)
    found = checks(scene, "--as-dispatch")
    assert found["dispatch: tokenreviews"]["state"] == "problem"
    assert found["dispatch: pods"]["found"].startswith(
        "may not get and list and watch and patch and delete pods in default"
    )
    assert "deploy/rbac/dispatch.yaml" in found["dispatch: pods"]["fix"]


def test_pools_that_share_a_label_or_have_no_node_are_problems(looked_at: Scene):
    pool = one(looked_at, RunnerPool, "macs")
    second = structs.replace(
        pool,
        metadata=structs.replace(pool.metadata, name="twin"),
        spec=structs.replace(pool.spec, dispatch_label="MAC"),
        status=structs.replace(pool.status, dispatch_label="MAC", dispatch_label_since=SystemClock().now()),
    )
    shared, *lonely = sorted(pool_checks([second, pool], []), key=lambda check: check.found, reverse=True)
    assert (shared.about, shared.fix) == ("pool twin", "give twin another dispatchLabel")
    assert "pool macs has had the dispatch label 'MAC' for longer" in shared.found
    assert ["no Node has the label tuist.dev/fleet=blue" in one.found for one in lonely] == [True, True]


def test_prefixes_of_two_releases_that_begin_alike_are_a_problem_and_a_shared_pool_is_none():
    one, other = (Sweeping("tuist-pool-", f"{name}-", f"Deployment {name}/operator") for name in ("paddock", "staging"))
    (fine,) = prefix_checks([one, other], [machine(spec={"adopt_pool_prefix": "lab-pool-"})], [])
    assert fine.state == "ok"
    (wrong,) = prefix_checks([one, replace(other, claim_name_prefix="paddock-staging-")], [], [])
    assert wrong.state == "problem"
    assert "begin with paddock-staging-, and so with paddock-" in wrong.found
    assert "Deployment staging/operator" in wrong.found
    (wrong,) = prefix_checks([one], [machine(spec={"adopt_pool_prefix": "tuist-pool-b-"})], [])
    assert "tuist-pool-b-" in wrong.found


def test_without_a_cluster_it_says_how_to_name_one(scene: Scene):
    file = scene.cluster.kubeconfig
    file.write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", file.read_text()))
    outcome = scene.type("doctor")
    assert outcome.exit_code == 3
    assert "✗ cluster" in outcome.output
    assert "--kubeconfig" in outcome.output


async def test_an_app_without_webhooks_needs_no_secret_of_one(tmp_path: Path):
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "app.pem").write_bytes(key)
    where = {
        "PADDOCK_GITHUB_API_URL": "http://127.0.0.1:1",
        "PADDOCK_GITHUB_PRIVATE_KEY_FILE": str(tmp_path / "app.pem"),
    }
    secret, reached = await github({"PADDOCK_GITHUB_APP_ID": "7", "PADDOCK_GITHUB_WEBHOOKS": "off", **where})
    assert (secret.state, "GitHub is asked for jobs" in secret.found) == ("ok", True)
    assert reached.state == "problem"


async def test_bad_credentials_are_named_and_never_shown():
    found = await cloud({"SCW_SECRET_KEY": "very-secret", "SCW_DEFAULT_PROJECT_ID": "mine"})
    found += await github({"PADDOCK_GITHUB_APP_ID": "7", "PADDOCK_GITHUB_PRIVATE_KEY": "very-secret"})
    assert [check.state for check in found] == ["problem", "problem"]
    assert "SCW_DEFAULT_PROJECT_ID" in found[0].fix
    assert "PADDOCK_GITHUB_WEBHOOK_SECRET" in found[1].fix
    assert "very-secret" not in str(found)
