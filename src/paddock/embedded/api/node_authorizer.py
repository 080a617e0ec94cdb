"""What a node may do, beyond what anybody bound to it: as Kubernetes' own Node authorizer and NodeRestriction have it.

A node is the user `system:node:<name>` in the group `system:nodes`. It reads and keeps its own Node and its own Lease,
reads the Pods that are bound to it, says how they fare and removes them, asks for the tokens that they carry, writes
Events, and asks for its next certificate. Nothing else: no Secret, no ConfigMap, no other node's anything. Where this is
stricter than Kubernetes, it says so.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from paddock.embedded.api import status
from paddock.embedded.api.calls import User
from paddock.embedded.api.client_authority import UnusableRequestError, read_request, subject_of
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.rbac import Attributes
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.store import Key, Store

__all__ = [
    "KUBELET_CLIENT",
    "NODES",
    "NodeAuthorizer",
    "check_node_write",
    "check_token_request",
    "node_name_of",
]

Json = dict[str, Any]

NODES: Final = "system:nodes"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
_PREFIX = "system:node:"
_LEASES = ("coordination.k8s.io", "leases")
_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
_CSRS = "certificatesigningrequests.certificates.k8s.io"
_LEASE_NAMESPACE = "kube-node-lease"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/windows-build",
    }
)
_OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


def node_name_of(user: User) -> str:
    """The node that a user is, or an empty text."""
    if NODES not in user.groups or not user.name.startswith(_PREFIX):
        return ""
    return user.name.removeprefix(_PREFIX)


class NodeAuthorizer:
    """Looks at live objects, so that a right ends with the Pod or the Node that it came from."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def allows(self, node: str, asked: Attributes) -> bool:
        """Whether the node may do this. What a body says is looked at when it is written (`check_node_write`)."""
        match (asked.group, asked.resource, asked.subresource):
            case ("", "nodes", ""):
                return _own_node(node, asked)
            case ("", "nodes", "status"):
                return asked.verb in ("get", "update", "patch") and asked.name == node
            case (*lease, "") if tuple(lease) == _LEASES:
                return self._own_lease(node, asked)
            case ("", "pods", "" | "status"):
                return await self._own_pod(node, asked)
            case ("", "serviceaccounts", "token"):
                return asked.verb == "create" and await self._runs_as(node, asked.namespace, asked.name)
            case ("" | "events.k8s.io", "events", ""):
                return asked.verb in ("create", "update", "patch")
            case (*request, "") if tuple(request) == _REQUESTS:
                return asked.verb == "create" or (asked.verb == "get" and await self._asked_by(node, asked.name))
            case _:
                return False

    def _own_lease(self, node: str, asked: Attributes) -> bool:
        if asked.namespace != _LEASE_NAMESPACE:
            return False
        if asked.verb == "create":
            return asked.name in ("", node)
        return asked.verb in ("get", "update", "patch", "delete") and asked.name == node

    async def _own_pod(self, node: str, asked: Attributes) -> bool:
        if asked.verb in ("list", "watch") and asked.fields.get("spec.nodeName") == node:
            return True  # whether or not it asks for one name among them
        if not asked.name:
            return False  # never the Pods of others: a list or a watch must name the node itself, or a Pod of its own
        verbs = ("get", "delete") if not asked.subresource else ("get", "update", "patch")
        if asked.verb not in verbs and not (asked.verb == "watch" and not asked.subresource):
            return False
        record = await self._store.get(Key("pods", asked.namespace, asked.name))
        return record is not None and decode(record)["spec"].get("nodeName") == node

    async def _runs_as(self, node: str, namespace: str, account: str) -> bool:
        """Whether some Pod on this node runs under the account."""
        for record in (await self._store.list("pods", namespace)).records:
            spec = decode(record).get("spec") or {}
            if spec.get("nodeName") == node and spec.get("serviceAccountName", "default") == account:
                return True
        return False

    async def _asked_by(self, node: str, request: str) -> bool:
        """Only its own requests; Kubernetes shows a node every one of them."""
        record = await self._store.get(Key(_CSRS, "", request))
        return record is not None and (decode(record).get("spec") or {}).get("username") == f"{_PREFIX}{node}"


def _own_node(node: str, asked: Attributes) -> bool:
    match asked.verb:
        case "create":
            return asked.name in ("", node)
        case "get" | "update" | "patch":
            return asked.name == node
        case "list" | "watch":
            return node in (asked.name, asked.fields.get("metadata.name"))
        case _:
            return False


def check_node_write(node: str, kind: Kind, old: Json | None, new: Json, subresource: str) -> None:
    """403 for what a node may not write though the URL is its own. `old` is None for a new object."""
    match kind.resource:
        case "nodes":
            _check_node(node, kind, old, new, subresource)
        case "pods":
            _check_pod(node, kind, old, new)
        case "leases.coordination.k8s.io":
            meta = new["metadata"]
            if meta["name"] != node or meta.get("namespace") != _LEASE_NAMESPACE:
                raise _refused(kind, meta["name"], node, f"can only write the Lease {_LEASE_NAMESPACE}/{node}")
        case resource if resource == _CSRS and old is None:
            _check_request(node, kind, new)
        case _:
            pass


def check_token_request(node: str, kind: Kind, account: str, spec: Json, pod: Json | None) -> None:
    """403 unless the token is bound, by its uid, to a Pod of this node, and for an audience that the Pod itself names."""
    bound = spec.get("boundObjectRef") or {}
    if pod is None or bound.get("kind") != "Pod" or not bound.get("uid"):
        raise _refused(kind, account, node, "can only ask for tokens that are bound to a Pod by its name and uid")
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise _refused(kind, account, node, "can only ask for tokens of Pods that are bound to it")
    named = _audiences(pod)
    for audience in spec.get("audiences") or ("",):
        if audience not in named:
            raise _refused(
                kind, account, node, f"can only ask for audiences that a volume of the Pod names, not {audience!r}"
            )


def _audiences(pod: Json) -> set[str]:
    """The audiences of the Pod's projected tokens; the empty one is the API's own."""
    sources = [
        source["serviceAccountToken"]
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken") is not None
    ]
    return {source.get("audience") or "" for source in sources}


def _check_node(node: str, kind: Kind, old: Json | None, new: Json, subresource: str) -> None:
    name = new["metadata"]["name"]
    if name != node:
        raise _refused(kind, name, node, f"can only write the Node {node}")
    if old is None:
        _check_labels(kind, node, {}, new["metadata"].get("labels") or {})
        return
    if subresource == "status":
        return
    was, now = old.get("spec") or {}, new.get("spec") or {}
    if (was.get("taints") or []) != (now.get("taints") or []):
        raise _refused(kind, name, node, "cannot change its taints: they are set when the Node is made")
    if was.get("providerID") and was["providerID"] != now.get("providerID"):
        raise _refused(kind, name, node, "cannot change its providerID")
    if (old["metadata"].get("ownerReferences") or []) != (new["metadata"].get("ownerReferences") or []):
        raise _refused(kind, name, node, "cannot change its owners")
    _check_labels(kind, node, old["metadata"].get("labels") or {}, new["metadata"].get("labels") or {})


def _check_labels(kind: Kind, node: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    if barred := sorted(key for key in changed if not _may_label(key)):
        raise _refused(kind, node, node, f"cannot set, change or remove these labels: {', '.join(barred)}")


def _may_label(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if key in _OWN_LABELS or _below(domain, _OWN_LABEL_DOMAINS):
        return True
    return not _below(domain, ("kubernetes.io", "k8s.io"))


def _below(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _check_pod(node: str, kind: Kind, old: Json | None, new: Json) -> None:
    name = new["metadata"]["name"]
    if old is None:
        # Kubernetes lets a node make mirror Pods; ours has no static ones.
        raise _refused(kind, name, node, "cannot make Pods")
    if (old.get("spec") or {}).get("nodeName") != node:
        raise _refused(kind, name, node, "can only write the status of Pods that are bound to it")


def _check_request(node: str, kind: Kind, new: Json) -> None:
    name, spec = new["metadata"]["name"], new.get("spec") or {}
    if spec.get("signerName") != KUBELET_CLIENT:
        raise _refused(kind, name, node, f"can only ask the signer {KUBELET_CLIENT}")
    try:
        asked = subject_of(read_request(base64.b64decode(spec.get("request") or "")).subject)
    except (UnusableRequestError, ValueError) as error:
        raise _refused(kind, name, node, f"sent a request that cannot be read: {error}") from None
    if asked != (f"{_PREFIX}{node}", (NODES,)):
        raise _refused(kind, name, node, "can only ask for a certificate of its own")


def _refused(kind: Kind, name: str, node: str, why: str) -> ApiFailure:
    return status.forbidden(f'{kind.resource} "{name}" is forbidden: node "{node}" {why}', kind, name)
