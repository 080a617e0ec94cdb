"""What the cluster's admission adds to a Mac's identity: refusal of nodes that were given back, and ties for accounts.

Both are ValidatingAdmissionPolicies (Kubernetes 1.30 and newer), because neither RBAC nor the Node authorizer can say it:
the one looks at a list of revoked nodes (`bootstrap.revocation`), the other at the name of the account that writes.
"""

from typing import Any, Final

from paddock.hosts.bootstrap.revocation import REVOKED

__all__ = ["NODE_ACCOUNTS", "REVOKED_NODES", "node_policies"]

REVOKED_NODES: Final = "paddock-revoked-nodes"
NODE_ACCOUNTS: Final = "paddock-node-accounts"
_ADMISSION = "admissionregistration.k8s.io/v1"
_WRITES = ["CREATE", "UPDATE", "DELETE"]
_ACCOUNT = "^system:serviceaccount:[^:]+:paddock-node-.+$"


def node_policies(namespace: str) -> list[dict[str, Any]]:
    """The policies and their bindings; `namespace` is the operator's, where the list of revoked nodes is."""
    parameters = {
        "namespace": namespace,
        "selector": {"matchLabels": {REVOKED: "true"}},
        "parameterNotFoundAction": "Allow",
    }
    return [
        _policy(REVOKED_NODES, _revoked()),
        _binding(REVOKED_NODES, {"paramRef": parameters}),
        _policy(NODE_ACCOUNTS, _accounts()),
        _binding(NODE_ACCOUNTS, {}),
    ]


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    kind = "ValidatingAdmissionPolicy"
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _binding(name: str, more: dict[str, Any]) -> dict[str, Any]:
    spec = {"policyName": name, "validationActions": ["Deny"], **more}
    kind = "ValidatingAdmissionPolicyBinding"
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _about(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": _WRITES, "resources": list(resources)}


def _revoked() -> dict[str, Any]:
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                _about(
                    "",
                    "nodes",
                    "nodes/status",
                    "pods",
                    "pods/status",
                    "pods/eviction",
                    "serviceaccounts/token",
                    "events",
                ),
                _about("events.k8s.io", "events"),
                _about("coordination.k8s.io", "leases"),
                _about("certificates.k8s.io", "certificatesigningrequests"),
                _about("storage.k8s.io", "csinodes"),
                _about("resource.k8s.io", "resourceslices"),
            ]
        },
        "matchConditions": [{"name": "a-node", "expression": "'system:nodes' in request.userInfo.groups"}],
        "validations": [
            {
                "expression": "request.userInfo.username != 'system:node:' + params.data['node']",
                "messageExpression": "'node ' + params.data['node'] + ' was given back: it is refused until ' + "
                "params.data['until'] + ', when its last certificate has ended'",
                "reason": "Forbidden",
            }
        ],
    }


def _accounts() -> dict[str, Any]:
    def tied(resource: str, holds: str, message: str, subresource: str = "") -> dict[str, Any]:
        other = f"request.resource.resource != '{resource}'"
        if subresource:
            other += f" || request.subResource != '{subresource}'"
        return {"expression": f"{other} || ({holds})", "message": message, "reason": "Forbidden"}

    taints = "(has({0}.spec) && has({0}.spec.taints) ? {0}.spec.taints : [])"
    same_taints = f"{taints.format('object')} == {taints.format('oldObject')}"
    bound = (
        "has(object.spec.boundObjectRef) && object.spec.boundObjectRef.kind == 'Pod' "
        "&& has(object.spec.boundObjectRef.uid) && object.spec.boundObjectRef.uid != ''"
    )
    on_it = "has(oldObject.spec.nodeName) && oldObject.spec.nodeName == variables.node"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _about("", "nodes", "nodes/status", "pods", "pods/status", "serviceaccounts/token"),
                _about("coordination.k8s.io", "leases"),
            ]
        },
        "matchConditions": [
            {"name": "an-account-of-a-mac", "expression": f"request.userInfo.username.matches('{_ACCOUNT}')"}
        ],
        "variables": [
            {
                "name": "node",
                "expression": "request.userInfo.username.split(':')[3].substring(13)",  # after `paddock-node-`
            }
        ],
        "validations": [
            tied("nodes", "object != null && object.metadata.name == variables.node", "a Mac writes its own Node only"),
            tied(
                "nodes",
                f"request.operation != 'UPDATE' || {same_taints}",
                "a Mac's taints are set when its Node is made",
            ),
            tied(
                "leases",
                "object != null && object.metadata.name == variables.node && request.namespace == 'kube-node-lease'",
                "a Mac writes its own Lease only",
            ),
            tied(
                "pods", f"oldObject != null && {on_it}", "a Mac writes and removes the Pods that are bound to it only"
            ),
            tied("serviceaccounts", bound, "a Mac asks for tokens that are bound to a Pod by its uid only", "token"),
        ],
    }
