"""What Paddock's processes may do in a cluster, as deployed."""

from typing import Any

import yaml
from integration.roles.deployed import FOLDER, OPERATOR_ROLES, admission, files

from paddock.hosts.roles import (
    CORE_ROLE,
    NODE_LEASE_ROLE,
    NODE_PODS_ROLE,
    NODE_ROLE,
    core_rules,
    node_lease_rules,
    node_pod_rules,
    node_roles,
    node_rules,
)
from paddock.kube.roles import Role
from paddock.runners.processes.roles import dispatch_roles

DISPATCH_ROLES = dispatch_roles("runners")


def verbs(roles: tuple[Role, ...], resource: str, *, namespace: str, group: str = "") -> set[str]:
    """What a role grants on a resource in exactly this scope; the empty namespace is the cluster."""
    return {
        verb
        for role in roles
        for rule in role.rules
        for verb in rule.verbs
        if role.namespace == namespace and rule.group == group and resource in rule.resources
    }


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def test_the_files_in_deploy_are_what_the_rules_say_today() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert kept == files(), "run make roles"


def test_the_files_say_the_same_as_the_roles_and_bind_each_of_them_to_its_account() -> None:
    written = documents(files()["operator.yaml"])
    assert [each for each in written if each["kind"].endswith("Role")] == [role.manifest() for role in OPERATOR_ROLES]
    bound = {
        (each["kind"], each["roleRef"]["name"], each["metadata"].get("namespace", ""))
        for each in written
        if each["kind"].endswith("Binding")
    }
    assert bound == {(f"{role.kind}Binding", role.name, role.namespace) for role in OPERATOR_ROLES}
    for each in written:
        for subject in each.get("subjects", ()):
            assert (subject["name"], subject["namespace"]) == ("paddock-operator", "default")


def test_other_namespaces_can_be_asked_for_and_reach_every_role_and_subject() -> None:
    for text in files("fleet", "ci").values():
        assert "namespace: default" not in text
    kinds = {
        (each["kind"], each["metadata"].get("namespace"))
        for name in ("operator.yaml", "dispatch.yaml")
        for each in documents(files("fleet", "ci")[name])
    }
    assert {("ServiceAccount", "fleet"), ("Role", "fleet"), ("Role", "ci")} <= kinds
    assert ("Role", "default") not in kinds


def test_the_dispatch_process_may_delete_the_pods_and_accounts_that_the_reaper_finds_leaked() -> None:
    """Without the two deletes the reaper runs every minute, is refused every time, and heals nothing."""
    assert verbs(DISPATCH_ROLES, "pods", namespace="runners") == {"get", "list", "watch", "patch", "delete"}
    assert verbs(DISPATCH_ROLES, "serviceaccounts", namespace="runners") == {"get", "list", "watch", "delete"}


def test_nobody_but_a_macs_own_agent_may_change_pods_outside_the_runners_namespace() -> None:
    """The operator lists them there: before it takes a Mac it must know who works on it, whatever the namespace."""
    for roles in (OPERATOR_ROLES, DISPATCH_ROLES):
        for role in roles:
            changing = [rule for rule in role.rules if rule.resources != ("pods",) or rule.verbs != ("list",)]
            touches = {resource.split("/")[0] for rule in changing for resource in rule.resources}
            assert role.namespace or not touches & {"pods", "serviceaccounts", "secrets"}, role.name
    assert verbs(OPERATOR_ROLES, "pods", namespace="") == {"list"}


def test_dispatch_reads_pools_and_asks_whose_a_token_is_and_changes_neither() -> None:
    assert verbs(DISPATCH_ROLES, "runnerpools", namespace="runners", group="tuist.dev") == {"get", "list", "watch"}
    assert verbs(DISPATCH_ROLES, "tokenreviews", namespace="", group="authentication.k8s.io") == {"create"}
    assert verbs(DISPATCH_ROLES, "nodes", namespace="") == {"get", "list", "watch"}


def test_the_operator_may_give_away_these_roles_and_no_other() -> None:
    given = [rule for role in OPERATOR_ROLES for rule in role.rules if "bind" in rule.verbs or "escalate" in rule.verbs]
    assert [(rule.verbs, rule.resources, rule.names) for rule in given] == [
        (("bind",), ("clusterroles",), (NODE_ROLE, NODE_LEASE_ROLE, NODE_PODS_ROLE, CORE_ROLE))
    ]


def test_no_role_grants_everything_and_every_rule_says_why() -> None:
    for role in (*OPERATOR_ROLES, *DISPATCH_ROLES, node_rules(), node_lease_rules(), node_pod_rules(), core_rules()):
        for rule in role.rules:
            assert "*" not in (rule.group, *rule.resources, *rule.verbs), (role.name, rule)
            assert rule.why.endswith("."), (role.name, rule)
            assert rule.verbs
            assert len(set(rule.verbs)) == len(rule.verbs)


def test_the_node_role_is_a_cluster_role_under_the_name_that_accounts_are_bound_to() -> None:
    names = [(role["kind"], role["metadata"]["name"]) for role in node_roles()]
    assert names == [("ClusterRole", name) for name in ("paddock-node", "paddock-node-lease", "paddock-node-pods")]


def test_an_account_of_a_mac_may_do_nothing_in_the_whole_cluster_but_keep_nodes_and_name_it() -> None:
    """With tokens, Pods or Leases in the whole cluster, root on one Mac would be the operator."""
    assert [(rule.resources, rule.verbs) for rule in node_rules().rules] == [
        (("nodes",), ("get", "create", "patch")),
        (("nodes/status",), ("patch",)),
        (("namespaces",), ("get",)),
    ]
    assert node_rules().rules[-1].names == ("kube-system",)


def test_the_operator_may_approve_certificates_of_nodes_and_no_others() -> None:
    given = [rule for role in OPERATOR_ROLES for rule in role.rules if "approve" in rule.verbs or "sign" in rule.verbs]
    assert [(rule.verbs, rule.resources, rule.names) for rule in given] == [
        (("approve",), ("signers",), ("kubernetes.io/kube-apiserver-client-kubelet",))
    ]


def test_the_admission_file_in_deploy_is_what_the_code_says_today() -> None:
    path = FOLDER.parent / "admission" / "node-identity.yaml"
    assert path.read_text(encoding="utf-8") == admission(), "run make roles"


def test_core_has_the_rights_that_it_was_seen_to_use_and_no_other() -> None:
    """Found by adding them one by one under Cluster API 1.13; verb by verb."""
    granted = {
        (rule.group, what): set(rule.verbs) for rule in core_rules().rules for what in (*rule.resources, *rule.urls)
    }
    assert granted == {
        ("", "/"): {"get"},
        ("", "nodes"): {"get", "list", "watch", "patch", "delete"},
        ("", "pods"): {"get", "list"},
        ("", "pods/eviction"): {"create"},
        ("", "namespaces"): {"list", "watch"},
        ("apps", "daemonsets"): {"get"},
        ("storage.k8s.io", "volumeattachments"): {"list"},
        ("", "persistentvolumes"): {"list"},
    }
