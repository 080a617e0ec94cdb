"""The verbs that only look: status, get, describe, why, tree, events, leaks."""

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from unit.cli.scene import DONE_JOB, FREE_ID, JOB, OTHER_JOB, Scene
from unit.hosts.made import NOW, OTHER_ID, SERVER_ID

from paddock.base.clock import SystemClock, rfc3339_micro
from paddock.cli.status import what_changed
from paddock.hosts.api import MacFleet, MacFleetSpec
from paddock.kube.builtin import Event, Lease, LeaseSpec
from paddock.kube.leader import OPERATOR_LEASE
from paddock.kube.objects import ObjectMeta


class TestStatus:
    def test_it_names_the_cause_first_with_what_hangs_on_it_and_exits_with_three(self, looked_at: Scene):
        outcome = looked_at.type("status")
        assert outcome.exit_code == 3
        assert outcome.output.startswith(f"Not healthy: host {OTHER_ID}: ")
        assert f"▲ host {OTHER_ID}" in outcome.output
        assert "  so:      machine blue-2: not Ready" in outcome.output
        assert f"  type:    paddock why host {OTHER_ID}" in outcome.output

    def test_it_shows_the_numbers_of_both_halves(self, looked_at: Scene):
        shown = dict(line.strip().rsplit("  ", 1) for line in looked_at.type("status").output.splitlines()[2:10])
        assert {label.strip(): value.strip() for label, value in shown.items()} == {
            "oldest job that may run": "0 s",
            "jobs waiting / withheld": "1 / 2",
            "jobs running": "1",
            "Pods warm": "1",
            "hosts ready": "1 of 3",
            "hosts stranded": "1",
            "leaks healed in 24 h": "1",
            "jobs killed in 24 h": "2",
        }

    def test_kills_are_those_of_the_ledger_whichever_process_ended_the_jobs(self, looked_at: Scene):
        looked_at.ledger.json["strip"] |= {"killed_last_day": 3, "killed_since": rfc3339_micro(NOW)}
        assert "1 live job was killed by healing within a day" in looked_at.type("status").output
        del looked_at.ledger.json["strip"]["killed_last_day"]
        older = looked_at.type("status").output
        assert "jobs killed in 24 h      ?" in older, "a dispatch that writes none down is not one without any"
        assert "/metrics" not in looked_at.ledger.asked

    def test_none_waits_where_no_job_may_run_and_not_where_one_may_since_this_moment(self, looked_at: Scene):
        label = "  oldest job that may run  "
        assert f"{label}0 s" in looked_at.type("status").output.splitlines()
        looked_at.ledger.json["strip"] = looked_at.ledger.json["strip"] | {"dispatchable": 0}
        assert f"{label}none waits" in looked_at.type("status").output.splitlines()

    def test_it_says_what_changed_in_the_last_hour(self, looked_at: Scene):
        said = looked_at.type("status").output.splitlines()[-1]
        assert said == "in the last hour: 1 host adopted, 1 disagreement healed, 3 jobs ended"

    def test_it_says_that_a_mac_was_taken_from_under_its_jobs(self):
        event = Event(metadata=ObjectMeta(name="m-1.jobskilled"), reason="JobsKilled", count=1, last_timestamp=NOW)
        assert what_changed([event], NOW) == {"Macs taken with running jobs": 1}

    def test_it_says_how_far_machines_are_that_are_not_ready(self, looked_at: Scene):
        assert "  machines not ready       1 Pending" in looked_at.type("status").output.splitlines()

    def test_watching_is_for_people(self, looked_at: Scene):
        outcome = looked_at.type("status", "-w", "-o", "json")
        assert outcome.exit_code == 2
        assert "leave -o out" in outcome.output

    def test_a_silent_ledger_is_a_finding_and_the_hosts_are_still_shown(self, scene: Scene):
        scene.ledger.broken = True
        assert "Not healthy: dispatch: the dispatch service does not answer" in scene.type("status").output
        scene.ledger.text["/api/v1/concerns"] = "[]"  # it needs no database for that
        outcome = scene.type("status")
        assert outcome.exit_code == 3
        assert "Not healthy: dispatch: the line of jobs cannot be read" in outcome.output
        assert "hosts ready              1 of 3" in outcome.output

    def test_a_list_that_is_refused_is_said_by_its_name_and_dispatch_is_not_called_away(self, scene: Scene):
        scene.ledger.refuses["heals"] = "the ledger's database took too long"
        said = scene.type("status").output
        assert "the list of what was healed cannot be read: " in said
        assert "jobs are handed out" not in said
        assert "jobs running             1" in said
        assert "leaks healed in 24 h     ?" in said

    def test_a_database_that_takes_no_writes_is_the_first_problem(self, scene: Scene):
        found = "the ledger's database takes no writes, so no job is claimed: No space left on device"
        scene.ledger.json["concerns"] = [
            {"about": "database", "found": found, "fix": "make room", "weight": "stops", "since": None},
            {"about": "database's TLS", "found": "the DSN has no sslmode", "fix": "end it", "weight": "advice"},
        ]
        outcome = scene.type("status")
        assert outcome.exit_code == 3
        assert f"▲ database\n  {found}" in outcome.output
        assert "sslmode" not in outcome.output

    def test_it_says_when_no_operator_leads(self, scene: Scene):
        spec = LeaseSpec(
            holder_identity="macs-operator-1_x",
            lease_duration_seconds=15,
            renew_time=rfc3339_micro(SystemClock().now() - timedelta(minutes=5)),
        )
        lease = Lease(metadata=ObjectMeta(name=OPERATOR_LEASE, namespace="kube-system"), spec=spec)
        scene.cluster.create(lease)
        said = scene.type("status").output
        assert "▲ operator\n  no operator leads" in said
        assert "macs-operator-1 was last heard of 5 min ago" in said
        now = {"spec": {"renewTime": rfc3339_micro(SystemClock().now())}}
        scene.cluster.ask(lambda client: client.merge_patch(Lease, OPERATOR_LEASE, now, namespace="kube-system"))
        assert "operator" not in scene.type("status").output

    def test_scripts_get_the_same_as_json(self, looked_at: Scene):
        shown = json.loads(looked_at.type("status", "-o", "json").output)
        assert (shown["ok"], shown["numbers"]["hosts_ready"]) == (False, 1)
        [cause] = shown["problems"]
        assert [one["about"] for one in cause["symptoms"]] == ["machine blue-2"]
        assert shown["changes"]["jobs ended"] == 3


class TestGet:
    @pytest.mark.parametrize(
        ("kind", "names"),
        [
            ("hosts", [SERVER_ID, OTHER_ID, FREE_ID]),
            ("machines", ["blue-1", "blue-2"]),
            ("fleets", ["blue"]),
            ("pools", ["macs"]),
            ("pods", ["runner-1", "runner-2"]),
            ("nodes", ["blue-1"]),
            ("jobs", [str(JOB), str(OTHER_JOB), str(DONE_JOB)]),
            ("claims", ["runner-1"]),
            ("accounts", ["acme/macos"]),
            ("heals", ["5"]),
            ("kills", ["u-4"]),
        ],
    )
    def test_every_kind_comes_in_all_five_forms(self, looked_at: Scene, kind: str, names: list[str]):
        named = looked_at.type("get", kind, "-o", "name").output.split()
        assert [name.partition("/")[2] for name in named] == names
        table, wide = (looked_at.type("get", kind, "-o", form).output.splitlines() for form in ("table", "wide"))
        assert len(table) == len(wide) == len(names) + 1
        assert len(wide[0]) > len(table[0])
        as_json = json.loads(looked_at.type("get", kind, "-o", "json").output)
        assert as_json == yaml.safe_load(looked_at.type("get", kind, "-o", "yaml").output)
        assert len(as_json["items"]) == len(names)
        assert (as_json["apiVersion"], as_json["kind"]) in (
            ("v1", "List"),
            ("cli.tuist.dev/v1", f"{kind.capitalize().removesuffix('s')}List"),
        )

    def test_jobs_are_waiting_running_or_over_with_the_reason_and_the_pod(self, looked_at: Scene):
        rows = [line.split() for line in looked_at.type("get", "jobs").output.splitlines()[1:]]
        assert [(row[0], row[1]) for row in rows] == [
            (str(JOB), "waiting"),
            (str(OTHER_JOB), "running"),
            (str(DONE_JOB), "success"),
        ]
        assert rows[0][-2:] == ["in", "line"]
        assert "runner-1" in rows[1]

    def test_prices_are_shown_without_needless_zeros(self, looked_at: Scene):
        assert " 0.29 " in looked_at.type("get", "hosts", SERVER_ID, "-o", "wide").output

    def test_a_label_selects_objects_of_the_cluster(self, looked_at: Scene):
        outcome = looked_at.type("get", "pods", "-l", "tuist.dev/runner-pool-owner=acme", "-o", "name")
        assert outcome.output == "pod/runner-1\n"

    def test_the_ledger_has_no_labels_to_select_by(self, looked_at: Scene):
        outcome = looked_at.type("get", "jobs", "-l", "a=b")
        assert outcome.exit_code == 1
        assert "have no labels" in outcome.output

    def test_what_cannot_be_listed_is_answered_with_what_can(self, looked_at: Scene):
        outcome = looked_at.type("get", "unicorns")
        assert outcome.exit_code == 2
        assert "hosts, machines, fleets, pools, pods, nodes, jobs, claims, accounts, heals, kills" in outcome.output

    def test_without_a_kind_it_says_which_there_are(self, looked_at: Scene):
        outcome = looked_at.type("get")
        assert outcome.exit_code == 2
        assert "say what to list: one of hosts, machines" in outcome.output

    def test_a_name_may_be_given_as_o_name_prints_it(self, looked_at: Scene):
        assert looked_at.type("get", "machine/blue-1", "-o", "name").output == "machine/blue-1\n"
        assert looked_at.type("describe", "machine/blue-1").output.startswith("machine default/blue-1\n")

    def test_a_selector_that_is_none_is_named(self, looked_at: Scene):
        outcome = looked_at.type("get", "pods", "-l", "a in (")
        assert outcome.exit_code == 1
        assert "--selector 'a in ('" in outcome.output

    def test_json_shows_an_object_as_the_api_server_does(self, looked_at: Scene):
        shown = json.loads(looked_at.type("get", "machine", "blue-1", "-o", "json").output)
        assert list(shown)[:2] == ["apiVersion", "kind"]
        assert not [key for key in shown if "_" in key]

    def test_a_list_is_sorted_cut_and_templated_as_kubectl_does(self, looked_at: Scene):
        names = looked_at.type("get", "machines", "--sort-by", ".status.phase", "-o", "name").output.split()
        assert names == ["machine/blue-2", "machine/blue-1"], "Pending comes before Ready"
        assert len(looked_at.type("get", "machines", "--no-headers").output.splitlines()) == 2
        filled = looked_at.type("get", "machines", "-o", "jsonpath={.items[*].metadata.name}").output
        assert filled == "blue-1 blue-2\n"
        own = looked_at.type("get", "machine", "blue-1", "-o", "custom-columns=N:.metadata.name,P:.status.phase").output
        assert [line.split() for line in own.splitlines()] == [["N", "P"], ["blue-1", "Ready"]]
        wrong = looked_at.type("get", "machines", "-o", "jsonpath={.items")
        assert (wrong.exit_code, "Traceback" in wrong.output) == (1, False)
        assert looked_at.type("get", "machines", "-o", "nonsense").exit_code == 2

    def test_a_namespace_narrows_the_list_and_all_namespaces_widens_it_again(self, looked_at: Scene):
        said = looked_at.type("get", "pods", "-n", "elsewhere").output
        assert said == "No pods in namespace elsewhere; -A looks in every namespace.\n"
        assert len(looked_at.type("get", "pods", "-n", "elsewhere", "-A").output.splitlines()) == 3
        assert len(looked_at.type("get", "nodes", "-n", "elsewhere").output.splitlines()) == 2

    def test_the_namespace_is_shown_where_all_of_them_are_listed(self, scene: Scene):
        assert "NAMESPACE" not in scene.type("get", "fleets").output
        scene.put(MacFleet(metadata=ObjectMeta(name="red", namespace="kube-system"), spec=MacFleetSpec(replicas=0)))
        assert "red" not in scene.type("get", "fleets").output, (
            "as kubectl: the context's namespace, unless -A is given"
        )
        table = [line.split()[:2] for line in scene.type("get", "fleets", "-A").output.splitlines()]
        assert table == [["NAMESPACE", "NAME"], ["default", "blue"], ["kube-system", "red"]]

    def test_a_context_that_is_not_there_is_named(self, looked_at: Scene):
        outcome = looked_at.type("get", "pods", "--context", "moon")
        assert outcome.exit_code == 1
        assert "moon" in outcome.output

    def test_a_name_that_is_not_there_is_an_error(self, looked_at: Scene):
        outcome = looked_at.type("get", "machines", "red-1")
        assert outcome.exit_code == 1
        assert "no machines called red-1" in outcome.output

    def test_a_service_that_is_too_old_for_a_list_is_told_apart_from_an_empty_one(self, scene: Scene):
        del scene.ledger.json["heals"]
        assert "does not list heals" in scene.type("get", "heals").output
        scene.ledger.json["heals"] = []
        assert scene.type("get", "heals").output == "No heals.\n"


class TestDescribe:
    def test_a_machine_with_its_conditions_relations_events_and_reason(self, looked_at: Scene):
        said = looked_at.type("describe", "machine", "blue-1").output
        for part in (
            "machine default/blue-1",
            "  Ready  True  Ready  for",
            f"  host {SERVER_ID}",
            "  MacFleet blue",
            "  pod runner-1  Running, for acme",
            "Adopted: has a host",
            "machine blue-1: Ready for",
            "kubectl -n default describe samm blue-1",
        ):
            assert part in said, part

    def test_a_host_may_be_named_by_its_machine(self, looked_at: Scene):
        assert looked_at.type("describe", "host", "blue-1").output.startswith(f"host default/{SERVER_ID}\n")

    def test_a_job_with_its_transitions_and_the_call_that_shows_it_at_github(self, looked_at: Scene):
        said = looked_at.type("describe", "job", str(JOB)).output
        assert "job new → queued (webhook: announced)" in said
        assert f"gh api repos/acme/app/actions/jobs/{JOB}" in said

    @pytest.mark.parametrize(
        ("kind", "name", "beside"),
        [("fleet", "blue", "machine blue-2"), ("pool", "macs", "pod runner-2"), ("pod", "runner-1", "pool macs"), ("node", "blue-1", "pod runner-1")],
    )  # fmt: skip
    def test_everything_shows_what_stands_beside_it(self, looked_at: Scene, kind: str, name: str, beside: str):
        outcome = looked_at.type("describe", kind, name)
        assert outcome.exit_code == 0, outcome.output
        related = outcome.output.partition("\nrelated\n")[2]
        assert f"  {beside}" in related

    def test_a_pod_is_described_although_the_ledger_is_silent(self, scene: Scene):
        scene.ledger.broken = True
        outcome = scene.type("describe", "pod", "runner-1")
        assert outcome.exit_code == 0
        assert "kubectl -n default describe pods runner-1" in outcome.output

    def test_json_has_the_same_parts(self, looked_at: Scene):
        shown: dict[str, Any] = json.loads(looked_at.type("describe", "machine", "blue-2", "-o", "json").output)
        assert shown["why"]["healthy"] is False
        assert shown["conditions"][0]["reason"] == "NoAvailableHost"

    def test_what_is_not_there_is_answered_with_how_to_list(self, looked_at: Scene):
        outcome = looked_at.type("describe", "pool", "linux")
        assert outcome.exit_code == 1
        assert "`paddock get pools`" in outcome.output


class TestWhyTreeEventsLeaks:
    def test_why_a_machine_waits_is_one_sentence_and_three_as_exit_code(self, looked_at: Scene):
        outcome = looked_at.type("why", "machine", "blue-2")
        assert outcome.exit_code == 3
        assert outcome.output.startswith("machine blue-2: not Ready for")

    def test_why_asks_the_ledger_about_jobs(self, looked_at: Scene):
        outcome = looked_at.type("why", "job", str(JOB))
        assert (outcome.exit_code, outcome.output) == (0, f"job {JOB}: acme/app · test has waited 1 s\n")

    def test_the_tree_goes_from_fleet_to_pod(self, looked_at: Scene):
        lines = looked_at.type("tree").output.splitlines()
        assert lines[0] == "fleet blue  0 of 2 ready"
        assert "├─ machine blue-1  Ready" in lines
        assert "│     └─ node blue-1  not Ready" in lines
        assert any(line.strip("│├└─ ") == "pod runner-1  busy for acme" for line in lines)
        assert "hosts of no machine" in lines

    def test_events_are_shown_newest_last_and_only_about_what_is_asked(self, looked_at: Scene):
        said = looked_at.type("events", "--for", "machine/blue-1").output
        assert said.rstrip().endswith("machine/blue-1  Adopted: has a host")
        assert looked_at.type("events", "--for", "machine/blue-2").output == "No events about machine/blue-2.\n"

    def test_events_about_what_has_none_are_a_mistake_that_names_what_has_some(self, looked_at: Scene):
        outcome = looked_at.type("events", "--for", "job/1")
        assert outcome.exit_code == 2
        assert "host, machine, cluster, fleet, pool, pod, node" in outcome.output

    def test_a_job_or_a_runner_that_leaked_is_asked_about_by_its_own_kind(self, scene: Scene):
        made = {"worker": "x", "sentence": "s", "proven": True, "seconds": 1.0}
        scene.ledger.json["leaks"] = [
            {**made, "kind": "orphan_completed", "subject": "job 17"},
            {**made, "kind": "offline_runner", "subject": "runner macs-1-2"},
        ]
        job, runner, _ = scene.type("leaks", "-o", "wide").output.splitlines()[1:]
        assert job.endswith("paddock why job 17")
        assert runner.endswith("-")

    def test_a_stranded_host_is_a_leak(self, looked_at: Scene):
        outcome = looked_at.type("leaks")
        assert outcome.exit_code == 3
        assert f"stranded_host  {OTHER_ID}" in outcome.output

    def test_suspects_of_the_ledger_come_with_their_age_and_what_comes_of_them(self, scene: Scene):
        scene.ledger.json["leaks"] = [
            {"worker": "pods", "kind": "leaked_pod", "subject": "runner-9", "sentence": "nobody holds it", "proven": True, "seconds": 420.0},
            {"worker": "pods", "kind": "suspect", "subject": "", "sentence": "too young to tell", "proven": False, "seconds": 0.0},
        ]  # fmt: skip
        outcome = scene.type("leaks", "-o", "wide")
        assert outcome.exit_code == 3
        rows = outcome.output.splitlines()
        assert "leaked_pod" in rows[1]
        assert "7 min healed at the next pass" in " ".join(rows[1].split())
        assert rows[1].endswith("paddock why pod runner-9")

    def test_no_leak_is_good_news(self, scene: Scene):
        from paddock.hosts.api import ScalewayAppleSiliconHost

        scene.cluster.ask(lambda client: client.delete(ScalewayAppleSiliconHost, OTHER_ID, "default"))
        outcome = scene.type("leaks")
        assert (outcome.exit_code, outcome.output) == (0, "Nothing looks like a leak: all ledgers agree.\n")
