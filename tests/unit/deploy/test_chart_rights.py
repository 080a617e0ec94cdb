"""The rights that the chart gives are those of deploy/rbac, which are those that the code uses."""

from typing import Any

import pytest
import yaml
from unit.deploy.rendering import FULL, NAMESPACE, RELEASE, ROOT, of_kind

from paddock.hosts.roles import CLUSTER_IDENTITY, CORE_ROLE, NODE_LEASE_ROLE, NODE_PODS_ROLE, NODE_ROLE, RENEWAL_BINDING

NODE_ROLES = (NODE_ROLE, NODE_LEASE_ROLE, NODE_PODS_ROLE)
ROLES = ("ClusterRole", "Role")
BINDINGS = ("ClusterRoleBinding", "RoleBinding")


def generated() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object of deploy/rbac, by kind and name."""
    return {
        (each["kind"], each["metadata"]["name"]): each
        for path in sorted((ROOT / "deploy" / "rbac").glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if each
    }


def ours(name: str) -> str:
    return name if name in (CORE_ROLE, *NODE_ROLES) else f"{RELEASE}-{name.removeprefix('paddock-')}"


def rendered(values: dict[str, Any], kinds: tuple[str, ...]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(each["kind"], each["metadata"]["name"]): each for kind in kinds for each in of_kind(kind, values)}
    # Kubernetes' own role, given to every node: not a role of the release, nor to an account of it.
    found.pop(("ClusterRoleBinding", RENEWAL_BINDING), None)
    # Every node may learn which cluster this is; it comes with the admission policies.
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        found.pop((kind, CLUSTER_IDENTITY), None)
    return found


def test_every_role_has_exactly_the_generated_rules():
    roles = rendered(FULL, ROLES)
    made = {(kind, ours(name)): each["rules"] for (kind, name), each in generated().items() if kind in ROLES}
    assert {key: each["rules"] for key, each in roles.items()} == made


def test_every_binding_gives_a_role_of_the_release_to_an_account_of_the_release():
    bindings, roles = rendered(FULL, BINDINGS), rendered(FULL, ROLES)
    made = [(kind, ours(name)) for kind, name in generated() if kind in BINDINGS]
    assert sorted(bindings) == sorted(made)
    accounts = {(a["metadata"]["namespace"], a["metadata"]["name"]) for a in of_kind("ServiceAccount", FULL)}
    for (kind, name), binding in bindings.items():
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        assert role["metadata"].get("namespace") == binding["metadata"].get("namespace"), (kind, name)
        assert {(s["namespace"], s["name"]) for s in binding["subjects"]} <= accounts
    used = {d["spec"]["template"]["spec"]["serviceAccountName"] for d in of_kind("Deployment", FULL)}
    assert used == {name for _, name in accounts}


def test_rights_about_runners_hold_where_the_runners_are_and_the_others_at_home():
    where = {
        name: each["metadata"]["namespace"] for (kind, name), each in rendered(FULL, ROLES).items() if kind == "Role"
    }
    assert where == {
        f"{RELEASE}-operator": NAMESPACE,
        f"{RELEASE}-operator-runners": "jobs",
        f"{RELEASE}-dispatch": "jobs",
    }


def test_without_dispatch_nobody_may_touch_pods_and_only_who_works_is_read():
    roles = rendered({}, ROLES)
    assert {name for _, name in roles} == {f"{RELEASE}-operator", CORE_ROLE, *NODE_ROLES}
    for (_, name), role in roles.items():
        if name not in (CORE_ROLE, *NODE_ROLES):
            verbs = [rule["verbs"] for rule in role["rules"] if "pods" in rule["resources"]]
            assert verbs in ([], [["list"]])


def test_the_roles_that_the_operator_gives_away_keep_the_names_by_which_it_binds_them():
    given = {("ClusterRole", name) for name in (*NODE_ROLES, CORE_ROLE)}
    assert given <= rendered({}, ROLES).keys()
    bound = [
        rule["resourceNames"]
        for rule in rendered({}, ROLES)["ClusterRole", f"{RELEASE}-operator"]["rules"]
        if "bind" in rule["verbs"]
    ]
    assert bound == [[*NODE_ROLES, CORE_ROLE]]
    assert not given & rendered({"nodeRole": {"install": False}}, ROLES).keys()


@pytest.mark.parametrize("role", [each for key, each in generated().items() if key[0] in ROLES])
def test_no_rule_holds_for_everything(role: dict[str, Any]):
    for rule in role["rules"]:
        assert "*" not in (
            *rule.get("apiGroups", ()),
            *rule.get("resources", ()),
            *rule.get("nonResourceURLs", ()),
            *rule["verbs"],
        )
