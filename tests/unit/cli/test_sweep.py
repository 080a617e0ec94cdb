"""`paddock sweep`: verdicts with evidence, from the ledger alone."""

import json
import re
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec import to_builtins
from unit.cli.cluster import Cluster
from unit.hosts.made import FREE_NAME, NOW, OTHER_ID, OTHER_UID, POOL, SERVER_ID, claim, host, later, machine, release

from paddock.cli import main
from paddock.cli.sweep import survey
from paddock.kube.objects import Condition

OURS = "tuist-tuist-"
CLAIMED = {"epoch": 1, "last_machine": f"{OURS}m-1"}
"""This cluster's ledger says that the host was its own once."""
TOLD = (Condition(type="Ready", status="False", reason="NoOwner", message="nobody's", last_transition_time=NOW),)


def found(hosts: Any, machines: Any = (), prefix: str = OURS) -> Any:
    return survey(hosts, machines, pool_prefix=POOL, claim_name_prefix=prefix)


class TestTheSurvey:
    def test_a_stranded_host_that_the_operator_saw_too_would_be_reclaimed(self):
        (finding,) = found([host(spec=CLAIMED, cloud_name=f"{OURS}m-1", state="stranded", conditions=TOLD)])
        assert (finding.state, finding.reason, finding.action) == ("stranded", "NoOwner", "reclaim")

    def test_a_stranded_host_that_only_this_look_saw_is_looked_at_again_first(self):
        (finding,) = found([host(spec=CLAIMED, cloud_name=f"{OURS}m-1", state="owned")])
        assert finding.action == "nothing"
        assert "1 of 2" in finding.why

    def test_without_a_claim_name_prefix_it_says_why_nothing_would_be_done(self):
        (finding,) = found([host(cloud_name=f"{OURS}m-1", state="stranded", conditions=TOLD)], prefix="")
        assert finding.action == "nothing"
        assert "--orphan-reclaim-claim-name-prefix" in finding.why

    def test_the_evidence_names_every_tie_that_was_looked_for(self):
        its = host(spec={"claim": claim()}, cloud_name=f"{OURS}m-1", deletable_at=later(days=1), conditions=TOLD)
        (finding,) = found([its])
        said = "\n".join(finding.evidence)
        assert "which does not exist any more" in said
        assert f"no machine names {SERVER_ID}" in said
        assert "no machine's" in said
        assert "2026-06-02" in said
        assert "the operator last said since 2026-06-01 12:00 UTC: NoOwner" in said

    def test_an_owned_host_names_its_owner_and_its_ties(self):
        its = host(spec={"claim": claim()}, cloud_name="m-1", state="owned")
        (finding,) = found([its], [machine(server_id=SERVER_ID)])
        assert (finding.state, finding.machine, finding.action) == ("owned", "m-1", "nothing")
        assert any("which exists" in fact for fact in finding.evidence)
        assert any("named by machine default/m-1" in fact for fact in finding.evidence)

    def test_a_release_shows_how_far_it_is(self):
        (finding,) = found([host(spec={"release": release(wipe="requested")}, state="releasing")])
        assert finding.state == "releasing"
        assert any("wipe: requested" in fact for fact in finding.evidence)

    def test_a_dead_claim_would_be_taken_back_without_touching_the_cloud(self):
        told = (Condition(type="Ready", status="True", reason="DeadClaim"),)
        (finding,) = found([host(spec={"claim": claim()}, conditions=told)])
        assert finding.action == "take back the claim"

    def test_hosts_that_are_gone_or_not_seen_yet_are_not_left_out(self):
        states = {finding.state for finding in found([host(state="gone"), host(OTHER_ID, state="")])}
        assert states == {"gone", "unseen"}

    def test_every_state_is_shown_and_counted_once(self):
        hosts = [
            host(),
            host(OTHER_ID, cloud_name="m-1", spec={"claim": claim()}),
            host("33333333-3333-4333-8333-333333333333", cloud_name=f"{OURS}x"),
            host("44444444-4444-4444-8444-444444444444", cloud_name="another-clusters"),
        ]
        assert [finding.state for finding in found(hosts, [machine()])] == ["pooled", "owned", "foreign", "stranded"]


def put(cluster: Cluster, obj: Any) -> Any:
    return cluster.create(obj, to_builtins(obj.status) or None)


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    owner = put(cluster, machine("m-1", server_id=SERVER_ID))
    put(cluster, host(spec={"claim": claim(owner)}, cloud_name="m-1", state="owned"))
    put(
        cluster,
        host(
            OTHER_ID,
            spec={"epoch": 1, "last_machine": f"{OURS}lost"},
            cloud_name=f"{OURS}lost",
            state="stranded",
            conditions=TOLD,
        ),
    )
    return cluster


def run(cluster: Cluster, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["sweep", "--kubeconfig", str(cluster.kubeconfig), *arguments])


class TestTheCommand:
    def test_the_table_shows_every_host_and_needs_no_cloud_account(self, filled: Cluster, monkeypatch: Any):
        for name in ("SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID"):
            monkeypatch.delenv(name, raising=False)
        outcome = run(filled)
        assert outcome.exit_code == 3, outcome.output
        lines = outcome.output.splitlines()
        assert lines[0].split() == ["HOST", "STATE", "MACHINE", "CLOUD", "NAME", "WHY", "WOULD", "DO"]
        assert any(SERVER_ID in line and "owned" in line and "m-1" in line for line in lines)
        assert any(OTHER_ID in line and "stranded" in line for line in lines)
        assert lines[-1] == "2 hosts: 1 owned, 1 stranded; the sweep would act on 0."

    def test_explain_shows_the_evidence_and_what_would_be_done(self, filled: Cluster):
        outcome = run(filled, "--explain", "--orphan-reclaim-claim-name-prefix", OURS)
        assert f"no machine names {OTHER_ID}" in outcome.output
        assert "would do: reclaim" in outcome.output
        assert "the sweep would act on 1" in outcome.output

    @pytest.mark.parametrize(("more", "code"), [((), 3), (("--state", "stranded"), 3), (("--state", "owned"), 0)])
    def test_a_stranded_host_that_it_shows_needs_a_person(self, filled: Cluster, more: tuple[str, ...], code: int):
        assert run(filled, "--explain", *more).exit_code == code
        assert run(filled, "-o", "json", *more).exit_code == code

    def test_json_yaml_and_names_are_for_programs(self, filled: Cluster):
        told = json.loads(run(filled, "-o", "json").output)["items"]
        assert {each["host"]: each["state"] for each in told} == {SERVER_ID: "owned", OTHER_ID: "stranded"}
        assert [list(each) for each in yaml.safe_load(run(filled, "-o", "yaml").output)["items"]] == [list(told[0])] * 2
        names = run(filled, "-o", "name", "--state", "stranded").output
        assert names == f"scalewayapplesiliconhost/{OTHER_ID}\n"

    def test_it_changes_nothing(self, filled: Cluster):
        from paddock.hosts.api import ScalewayAppleSiliconHost

        async def versions(client: Any) -> list[str]:
            return [each.metadata.resource_version for each in (await client.list(ScalewayAppleSiliconHost)).items]

        before = filled.ask(versions)
        run(filled, "--explain", "--orphan-reclaim-claim-name-prefix", OURS)
        assert filled.ask(versions) == before

    def test_an_empty_cluster_has_no_hosts(self, cluster: Cluster):
        assert run(cluster).output == "No hosts.\n"

    def test_a_cluster_that_does_not_answer_is_a_clear_error(self, cluster: Cluster, tmp_path: Any):
        lost = tmp_path / "lost"
        lost.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", cluster.kubeconfig.read_text()))
        outcome = CliRunner().invoke(main, ["sweep", "--kubeconfig", str(lost)])
        assert outcome.exit_code == 1
        assert "paddock: " in outcome.output


def test_a_later_machine_with_the_same_name_is_no_evidence_for_a_claim():
    its = host(spec={"claim": claim()}, cloud_name="m-1")
    (finding,) = found([its], [machine(uid=OTHER_UID)])
    assert finding.reason == "OlderTenant"
    assert FREE_NAME not in finding.message
