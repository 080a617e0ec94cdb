"""What a write may say, given who writes it: asked once more in the moment before it is stored.

The URL was authorised before anything was read. Here are the questions that only the object itself answers: whether a
node writes what is its own, whether a role gives away more than its author holds, and who may approve a certificate.
"""

from dataclasses import dataclass
from typing import Any

from paddock.embedded.api import status
from paddock.embedded.api.calls import User
from paddock.embedded.api.escalation import describe, uncovered
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.node_authorizer import check_node_write, node_name_of
from paddock.embedded.api.rbac import MASTERS, RBAC_GROUP, Attributes, Authorizer

__all__ = ["CSRS", "WriteGuard"]

Json = dict[str, Any]

CSRS = "certificatesigningrequests.certificates.k8s.io"
_ROLES = (f"roles.{RBAC_GROUP}", f"clusterroles.{RBAC_GROUP}")
_BINDINGS = (f"rolebindings.{RBAC_GROUP}", f"clusterrolebindings.{RBAC_GROUP}")
_EVERYTHING: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_VERDICTS = ("Approved", "Denied")


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """Called with the old object (None: there is none) and the new one as it would be stored; raises 403."""

    authorizer: Authorizer
    user: User

    async def __call__(self, kind: Kind, old: Json | None, new: Json, subresource: str) -> None:
        if node := node_name_of(self.user):
            check_node_write(node, kind, old, new, subresource)
        if MASTERS in self.user.groups:
            return
        if kind.resource in _ROLES:
            await self._check_role(kind, old, new)
        elif kind.resource in _BINDINGS:
            await self._check_binding(kind, old, new)
        elif kind.resource == CSRS and old is not None and _verdicts(old) != _verdicts(new):
            raise status.forbidden(
                f'{kind.resource} "{new["metadata"]["name"]}" is forbidden: requests are approved and denied through '
                "the subresource approval only",
                kind,
                new["metadata"]["name"],
            )

    async def check_approval(self, kind: Kind, request: Json) -> None:
        """Approving needs the verb `approve` on the signer, beside the right to write the subresource."""
        signer: str = (request.get("spec") or {}).get("signerName", "")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            asked = Attributes("approve", "certificates.k8s.io", "signers", name=name)
            if await self.authorizer.allows(self.user, asked):
                return
        name = request["metadata"]["name"]
        why = f'user not permitted to approve requests with signerName "{signer}"'
        raise status.forbidden(f'{kind.resource} "{name}" is forbidden: {why}', kind, name)

    async def _check_role(self, kind: Kind, old: Json | None, new: Json) -> None:
        # The same rules under another label give no user more than before.
        if old is not None and all(old.get(key) == new.get(key) for key in ("rules", "aggregationRule")):
            return
        meta = new["metadata"]
        if await self._may("escalate", kind.plural, meta.get("namespace", ""), meta["name"]):
            return
        wanted = [*(new.get("rules") or ()), *([_EVERYTHING] if new.get("aggregationRule") else ())]
        await self._check_held(kind, new, wanted)

    async def _check_binding(self, kind: Kind, old: Json | None, new: Json) -> None:
        if old is not None and all(old.get(key) == new.get(key) for key in ("roleRef", "subjects")):
            return
        ref, namespace = new.get("roleRef") or {}, new["metadata"].get("namespace", "")
        plural = "clusterroles" if ref.get("kind") == "ClusterRole" else "roles"
        if await self._may("bind", plural, namespace, ref.get("name", "")):
            return
        rules = await self.authorizer.rules_of(ref, namespace)
        if rules is None:
            message = f'{plural}.{RBAC_GROUP} "{ref.get("name", "")}" not found'
            details = {"name": ref.get("name", ""), "group": RBAC_GROUP, "kind": plural}
            raise status.ApiFailure(404, "NotFound", message, details)
        await self._check_held(kind, new, rules)

    async def _may(self, verb: str, plural: str, namespace: str, name: str) -> bool:
        asked = Attributes(verb, RBAC_GROUP, plural, namespace=namespace, name=name)
        return await self.authorizer.allows(self.user, asked)

    async def _check_held(self, kind: Kind, new: Json, wanted: list[Json]) -> None:
        meta = new["metadata"]
        held = [rule async for rule in self.authorizer.rules(self.user, meta.get("namespace", ""))]
        if missing := uncovered(held, wanted):
            groups = " ".join(f'"{group}"' for group in self.user.groups)
            listed = "\n".join(describe(rule) for rule in missing)
            raise status.forbidden(
                f'{kind.resource} "{meta["name"]}" is forbidden: user "{self.user.name}" (groups=[{groups}]) '
                f"is attempting to grant RBAC permissions not currently held:\n{listed}",
                kind,
                meta["name"],
            )


def _verdicts(request: Json) -> list[Json]:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return [condition for condition in conditions if condition.get("type") in _VERDICTS]
