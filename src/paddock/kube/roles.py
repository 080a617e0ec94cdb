"""What a process may do in the cluster, as values: each rule with the reason why it is there.

The files in `deploy/rbac` are written from these values (`make roles`), and tests hold them against the requests that the
controllers really make, so that a role has nothing missing and nothing wider.
"""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from paddock.kube.crd import to_yaml

__all__ = ["RBAC", "Role", "RoleAccount", "Rule", "binding", "roles_yaml"]

RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Rule:
    """One right. `resources` are plural names, a subresource after a slash; `names` narrows it to objects of these names.

    With `urls` it is about paths of the API server that are no resources, and nothing else; only a ClusterRole has those.
    """

    why: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:
        """The PolicyRule."""
        if self.urls:
            return {"nonResourceURLs": list(self.urls), "verbs": list(self.verbs)}
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return rule | {"resourceNames": list(self.names)} if self.names else rule


@dataclass(frozen=True, slots=True)
class Role:
    """Rights in one namespace; without a namespace, in the whole cluster."""

    name: str
    rules: tuple[Rule, ...]
    namespace: str = ""

    @property
    def kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"

    def manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": self.kind,
            "metadata": {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})},
            "rules": [rule.manifest() for rule in self.rules],
        }


@dataclass(frozen=True, slots=True)
class RoleAccount:
    """The ServiceAccount that a process runs as."""

    name: str
    namespace: str

    def manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": self.name, "namespace": self.namespace},
        }


def binding(role: Role, account: RoleAccount) -> dict[str, Any]:
    """What gives a role to an account; of the role's own scope and name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{role.kind}Binding",
        "metadata": role.manifest()["metadata"],
        "roleRef": {"apiGroup": RBAC, "kind": role.kind, "name": role.name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }


def roles_yaml(head: str, roles: Iterable[Role], account: RoleAccount | None = None) -> str:
    """A file with the account, the roles, and what gives them to it. The reason of each rule is a comment above it."""
    parts = [_comment(head)]
    if account is not None:
        parts.append(to_yaml(account.manifest()))
    for role in roles:
        manifest = role.manifest()
        rules = manifest.pop("rules")
        parts.append(to_yaml(manifest) + "rules:\n")
        for rule, written in zip(role.rules, rules, strict=True):
            parts.append(_comment(rule.why) + to_yaml({"rules": [written]}).removeprefix("---\nrules:\n"))
        if account is not None:
            parts.append(to_yaml(binding(role, account)))
    return "".join(parts)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 116))
