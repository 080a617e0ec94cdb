"""Writes what Paddock's processes may do in a cluster into deploy/rbac (`make roles`; `--namespace` for another one)."""

import argparse
from pathlib import Path

from paddock.hosts import roles as hosts
from paddock.hosts.node_policies import node_policies
from paddock.kube.crd import to_yaml
from paddock.kube.roles import Role, RoleAccount, roles_yaml
from paddock.runners.processes import roles as runners

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "rbac"
OPERATOR = "paddock-operator"


def operator_roles(namespace: str, runners_namespace: str) -> tuple[Role, ...]:
    """The operator's roles: in the cluster, in its own namespace, and where the runners are."""
    return (
        Role(OPERATOR, (*hosts.OPERATOR_CLUSTER_RULES, *runners.OPERATOR_CLUSTER_RULES)),
        Role(OPERATOR, hosts.OPERATOR_NAMESPACE_RULES, namespace),
        Role(f"{OPERATOR}-runners", runners.OPERATOR_RUNNERS_RULES, runners_namespace),
    )


def files(namespace: str = "default", runners_namespace: str = "default") -> dict[str, str]:
    """The text of every file, by its name."""
    made = "Written by `make roles`; change the rules in src/paddock, where they are tested."
    return {
        "operator.yaml": roles_yaml(
            "What `paddock operator` may do. The Role of its own namespace is also needed in every other namespace that "
            f"holds Machines. {made}",
            operator_roles(namespace, runners_namespace),
            RoleAccount(OPERATOR, namespace),
        ),
        "dispatch.yaml": roles_yaml(
            f"What `paddock dispatch` may do: about Pods, only where the runners are. {made}",
            runners.dispatch_roles(runners_namespace),
            RoleAccount(runners.DISPATCH, namespace),
        ),
        "node.yaml": roles_yaml(
            "What the agent on each Mac may do where the cluster signs no certificates of nodes, and it has an account "
            "instead. The operator binds the first role in the cluster, the second in kube-node-lease, the third where the "
            f"runners are. {made}",
            [hosts.node_rules(), hosts.node_lease_rules(), hosts.node_pod_rules()],
        ),
        "cluster-api.yaml": roles_yaml(
            "What Cluster API's core may do to Nodes and Pods. The operator gives this role to the account that it makes for "
            f"each cluster. {made}",
            [hosts.core_rules()],
        ),
    }


def admission(namespace: str = "default") -> str:
    """What belongs to Macs' identities beside roles: their renewal, and the policies."""
    head = (
        "# Macs may renew their own certificates and read which cluster this is; those that were given back are refused; accounts of Macs are tied to\n"
        "# objects of their name. Written by `make roles`; change it in src/paddock/hosts.\n"
    )
    return head + "".join(
        to_yaml(each) for each in (hosts.renewal_binding(), *hosts.cluster_identity(), *node_policies(namespace))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", default="default", help="where the operator and dispatch run")
    parser.add_argument("--runners-namespace", default="default", help="where pools and runner Pods are")
    parser.add_argument("--into", type=Path, default=FOLDER)
    chosen = parser.parse_args()
    chosen.into.mkdir(parents=True, exist_ok=True)
    for name, text in files(chosen.namespace, chosen.runners_namespace).items():
        (chosen.into / name).write_text(text, encoding="utf-8")
        print(chosen.into / name)
    path = chosen.into.parent / "admission" / "node-identity.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(admission(chosen.namespace), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
