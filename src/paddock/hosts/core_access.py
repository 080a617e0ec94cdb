"""How Cluster API's core reaches the Nodes: through the Secret `<cluster>-kubeconfig`. The decisions; pure.

Core connects when the infrastructure cluster turns provisioned, and after a failure only every half minute. So the Secret is
there first. What is made for a cluster, in which order, and what heals a death in between: docs/design/core-access.md.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import parse_rfc3339, rfc3339
from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconCluster
from paddock.hosts.bootstrap.identity import MANAGED_BY, ApiEndpoint, renewal_due
from paddock.hosts.cluster_api import CLUSTER_NAME_LABEL, DELETE_FOR_MOVE, PAUSED, Cluster
from paddock.kube.builtin import SecretObject
from paddock.kube.objects import OwnerReference

__all__ = [
    "CLUSTER_SECRET",
    "LOOK_AGAIN",
    "VALUE",
    "AccountTakenError",
    "CoreAccessError",
    "Declare",
    "End",
    "Given",
    "Issue",
    "KeepAccess",
    "Provide",
    "Renew",
    "Rest",
    "account_name",
    "binding_name",
    "labels",
    "next_step",
    "notes",
    "owner_of",
    "secret_name",
    "secret_step",
]

CLUSTER_SECRET: Final = "cluster.x-k8s.io/secret"  # noqa: S105 - a type, no password
VALUE: Final = "value"
LOOK_AGAIN: Final = timedelta(minutes=10)
"""How long what was made is relied upon without a look: the operator does not watch accounts and Secrets."""

_WHEN_HELD = 10.0
_ACCOUNT = "tuist.dev/service-account-uid"
_ENDPOINT = "tuist.dev/api-endpoint"
_ISSUED = "tuist.dev/token-issued"
_EXPIRES = "tuist.dev/token-expires"


class CoreAccessError(Exception):
    """Core cannot be given its kubeconfig; the message says what to change."""


class AccountTakenError(CoreAccessError):
    """An account of that name exists and is not ours: rights are never given to it. Rename or remove it."""


# What becomes of the infrastructure cluster


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing now; `seconds` says when to look again (None: when something changes)."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class End:
    """It is being deleted: what was made for it is removed, then the finalizer."""


@dataclass(frozen=True, slots=True)
class Declare:
    """Say that it is provisioned; the operator leaves the Secret alone."""


@dataclass(frozen=True, slots=True)
class Provide:
    """See to the Secret of this Cluster, then say that it is provisioned."""

    cluster: str


def next_step(
    infra: ScalewayAppleSiliconCluster, owner: str, cluster: Cluster | None, *, managed: bool
) -> Rest | End | Declare | Provide:
    """What to do for an infrastructure cluster. `owner` is the name of the Cluster that owns it, empty without one.

    While clusterctl moves a cluster both sides are paused, and the source's objects are deleted under a mark: nothing is
    made or removed then. A cluster that was given access by us is always ended properly, even when that is turned off now.
    """
    meta = infra.metadata
    paused = cluster is not None and bool(cluster.spec.paused)
    if meta.deletion_timestamp is not None:
        if FINALIZER not in meta.finalizers or DELETE_FOR_MOVE in meta.annotations:
            return Rest(None)
        return Rest(_WHEN_HELD) if paused else End()
    if PAUSED in meta.annotations:
        return Rest(None)
    if paused:
        return Rest(_WHEN_HELD)
    if not managed:
        return Declare()
    if not owner:
        return Rest(None)  # core makes the Cluster its owner, and we are told
    return Provide(owner) if cluster is not None else Rest(_WHEN_HELD)


# What becomes of the Secret


@dataclass(frozen=True, slots=True)
class Given:
    """A person or another component made it: the operator uses it as it is, and never writes it."""


@dataclass(frozen=True, slots=True)
class Issue:
    """There is none: make one."""


@dataclass(frozen=True, slots=True)
class Renew:
    """It is ours and must have a new token, because of `why`."""

    why: str


@dataclass(frozen=True, slots=True)
class KeepAccess:
    """It is ours and good; look again in `seconds`."""

    seconds: float


def secret_step(
    secret: SecretObject | None, infra_uid: str, account_uid: str, endpoint: ApiEndpoint, now: datetime
) -> Given | Issue | Renew | KeepAccess:
    """What to do about the Secret. `account_uid` is that of the account as it is now: its namesake's tokens are refused."""
    if secret is None:
        return Issue()
    said = secret.metadata.annotations
    if not _ours(secret):
        return Given()
    if not secret.data.get(VALUE):
        return Renew("it holds no kubeconfig")
    if said.get(_ACCOUNT) != account_uid:
        return Renew("the account was made anew")
    if said.get(_ENDPOINT) != _digest(endpoint):
        return Renew("the API server is elsewhere now")
    if all(owner.uid != infra_uid for owner in secret.metadata.owner_references):
        return Renew("it would go with an owner that is gone")
    try:
        issued, expires = parse_rfc3339(said.get(_ISSUED, "")), parse_rfc3339(said.get(_EXPIRES, ""))
    except ValueError:
        return Renew("it does not say when its token ends")
    if renewal_due(issued, expires, now):
        return Renew("its token ends soon")
    due = expires - (expires - issued) / 3
    return KeepAccess(min((due - now).total_seconds() + 1.0, LOOK_AGAIN.total_seconds()))


def _ours(secret: SecretObject) -> bool:
    """Only what carries both of our marks was made by us; in doubt it was not."""
    meta = secret.metadata
    return MANAGED_BY.items() <= meta.labels.items() and _ACCOUNT in meta.annotations


def notes(account_uid: str, endpoint: ApiEndpoint, issued: datetime, expires: datetime) -> dict[str, str]:
    """The annotations by which `secret_step` knows the Secret again."""
    return {
        _ACCOUNT: account_uid,
        _ENDPOINT: _digest(endpoint),
        _ISSUED: rfc3339(issued),
        _EXPIRES: rfc3339(expires),
    }


def labels(cluster: str) -> dict[str, str]:
    return {**MANAGED_BY, CLUSTER_NAME_LABEL: cluster}


def _digest(endpoint: ApiEndpoint) -> str:
    return hashlib.sha256(f"{endpoint.server}\n{endpoint.ca}".encode()).hexdigest()[:16]


# Names


def secret_name(cluster: str) -> str:
    """Core's own rule."""
    return f"{cluster}-kubeconfig"


def account_name(infra: ScalewayAppleSiliconCluster) -> str:
    return f"cluster-api-{infra.metadata.name}"


def binding_name(infra: ScalewayAppleSiliconCluster) -> str:
    """Bindings have no namespace, so the name says it. No name has a colon: two clusters never share a binding."""
    return f"paddock:cluster-api:{infra.metadata.namespace}:{infra.metadata.name}"


def owner_of(infra: ScalewayAppleSiliconCluster) -> OwnerReference:
    """Who owns what is made for the cluster, so that garbage collection finds it."""
    meta, kind = infra.metadata, infra.RESOURCE
    return OwnerReference(api_version=kind.api_version, kind=kind.kind, name=meta.name, uid=meta.uid)
