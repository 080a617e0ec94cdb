"""Who may do what: RBAC over the Roles and bindings that are stored, deny by default.

The administrator's group `system:masters` may do everything; everybody else only what a rule grants. A Pod's token thus
reaches nothing here unless a binding names it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.embedded.api.calls import User
from paddock.embedded.api.representation import decode
from paddock.embedded.store import Key, Store

__all__ = ["MASTERS", "RBAC_GROUP", "Attributes", "Authorizer", "rule_allows"]

MASTERS = "system:masters"
RBAC_GROUP = "rbac.authorization.k8s.io"
_GROUP = RBAC_GROUP


@dataclass(frozen=True, slots=True)
class Attributes:
    """The question: may the user `verb` this `resource` (or this plain `path`)?"""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What the field selector of a list or a watch demands to be equal."""

    def refusal(self, user: User) -> str:
        """The sentence of a real server that says no."""
        if self.path:
            return f'forbidden: User "{user.name}" cannot {self.verb} path "{self.path}"'
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        named = f' "{self.name}"' if self.name else ""
        return (
            f'{where}{named} is forbidden: User "{user.name}" cannot {self.verb} resource "{what}" '
            f'in API group "{self.group}" {scope}'
        )


def rule_allows(rule: dict[str, Any], asked: Attributes) -> bool:
    """Whether one PolicyRule grants what is asked."""

    def has(names: Iterable[str] | None, name: str) -> bool:
        listed = list(names or ())
        return "*" in listed or name in listed

    if not has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(
            url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or ()
        )
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    listed = rule.get("resources") or ()
    fits = has(listed, resource) or (bool(asked.subresource) and f"*/{asked.subresource}" in listed)
    names = rule.get("resourceNames")
    return fits and has(rule.get("apiGroups"), asked.group) and (not names or asked.name in names)


class Authorizer:
    """Answers from the store, so that a binding counts from the moment it is written."""

    def __init__(self, store: Store, also: Callable[[User, Attributes], Awaitable[bool]] | None = None) -> None:
        """`also` grants what no role does: a node's rights to what is its own."""
        self._store = store
        self._also = also

    async def allows(self, user: User, asked: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        if asked.group in ("authorization.k8s.io", "authentication.k8s.io") and asked.resource.startswith(
            "selfsubject"
        ):
            return True  # asking about oneself is everybody's right
        if self._also is not None and await self._also(user, asked):
            return True
        return any([rule_allows(rule, asked) async for rule in self.rules(user, asked.namespace)])

    async def rules(self, user: User, namespace: str) -> AsyncIterator[dict[str, Any]]:
        """Every rule that holds for the user in a namespace (the empty one: cluster-wide rules only)."""
        for record in (await self._store.list(f"clusterrolebindings.{_GROUP}")).records:
            async for rule in self._granted(decode(record), user, ""):
                yield rule
        if namespace:
            for record in (await self._store.list(f"rolebindings.{_GROUP}", namespace)).records:
                async for rule in self._granted(decode(record), user, namespace):
                    yield rule

    async def _granted(self, binding: dict[str, Any], user: User, namespace: str) -> AsyncIterator[dict[str, Any]]:
        if not any(_is(subject, user, namespace) for subject in binding.get("subjects") or ()):
            return
        for rule in await self.rules_of(binding.get("roleRef") or {}, namespace) or ():
            yield rule

    async def rules_of(self, ref: Mapping[str, str], namespace: str) -> list[dict[str, Any]] | None:
        """The rules of the role that a reference names, or None where there is no such role."""
        key = (
            Key(f"clusterroles.{_GROUP}", "", ref.get("name", ""))
            if ref.get("kind") == "ClusterRole"
            else Key(f"roles.{_GROUP}", namespace, ref.get("name", ""))
        )
        role = await self._store.get(key)
        return None if role is None else list(decode(role).get("rules") or ())


def _is(subject: dict[str, Any], user: User, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return subject.get("name") == user.name
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return user.name == f"system:serviceaccount:{home}:{subject.get('name')}"
        case _:
            return False
