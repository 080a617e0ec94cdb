"""The built-in kinds that we read, each with the fields that we read.

These structs are views: they do not declare every field of their kind, so patch or apply them and never `update` them.
`Lease` is the exception and is complete.
"""

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from paddock.kube.objects import KubeObject, ObjectMeta, Struct
from paddock.kube.resource import Resource

__all__ = [
    "ConfigMap",
    "Container",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "CustomResourceDefinition",
    "EnvVar",
    "Event",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "Pod",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "SecretObject",
    "SelfSubjectAccessReview",
    "ServiceAccount",
    "SubjectAccessReview",
    "Taint",
    "TokenRequest",
    "TokenReview",
    "Toleration",
    "reference_to",
]


class Namespace(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


class SecretObject(KubeObject, frozen=True):
    """A Kubernetes Secret. The values are bytes, decoded from base64; they never show in its repr."""

    RESOURCE: ClassVar[Resource] = Resource("", "v1", "Secret", "secrets", status=False)

    data: dict[str, bytes] = {}
    string_data: dict[str, str] = {}
    type: str = ""
    immutable: bool | None = None

    def __repr__(self) -> str:
        return f"SecretObject({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class ConfigMap(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("", "v1", "ConfigMap", "configmaps", status=False)

    data: dict[str, str] = {}


class ServiceAccount(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("", "v1", "ServiceAccount", "serviceaccounts", status=False)


class EnvVar(Struct, frozen=True):
    name: str
    value: str = ""
    value_from: dict[str, Any] | None = None


class Container(Struct, frozen=True):
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: dict[str, Any] = {}


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    priority_class_name: str = ""
    volumes: tuple[dict[str, Any], ...] = ()


class ContainerStateTerminated(Struct, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    started_at: datetime | None = None


class ContainerState(Struct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Struct, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime | None = None
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("", "v1", "Pod", "pods")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Struct, frozen=True):
    type: str = ""
    address: str = ""


class NodeCondition(Struct, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeStatus(Struct, frozen=True):
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    node_info: dict[str, Any] = {}


class Node(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("", "v1", "Node", "nodes", namespaced=False)

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Struct, frozen=True):
    """Complete, so that it may be PUT. The times are texts, because the server insists on exactly six decimals."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("coordination.k8s.io", "v1", "Lease", "leases", status=False)

    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Event(KubeObject, frozen=True):
    """core/v1 Event: what `kubectl describe` shows below an object."""

    RESOURCE: ClassVar[Resource] = Resource("", "v1", "Event", "events", status=False)

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    source: dict[str, str] = {}
    reporting_component: str = ""
    reporting_instance: str = ""


class CustomResourceDefinition(KubeObject, frozen=True):
    """A definition as far as it says whether its kind is served."""

    RESOURCE: ClassVar[Resource] = Resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    )

    class Status(Struct, frozen=True):
        # The server writes `null` here until its controllers have looked at the definition.
        conditions: tuple[PodCondition, ...] | None = None
        stored_versions: tuple[str, ...] | None = None

    spec: dict[str, Any] = {}
    status: Status = Status()

    @property
    def established(self) -> bool:
        return any(c.type == "Established" and c.status == "True" for c in self.status.conditions or ())


class TokenRequest(KubeObject, frozen=True):
    """The `token` subresource of a ServiceAccount; use `Client.create_token`, which hides the token at once."""

    class Spec(Struct, frozen=True):
        audiences: tuple[str, ...] = ()
        expiration_seconds: int | None = None
        bound_object_ref: ObjectReference | None = None

    class Status(Struct, frozen=True):
        token: str = ""
        expiration_timestamp: datetime | None = None

        def __repr__(self) -> str:
            return f"Status(token=***, expiration_timestamp={self.expiration_timestamp})"

    RESOURCE: ClassVar[Resource] = ServiceAccount.RESOURCE

    spec: Spec = Spec()
    status: Status = Status()


class TokenReview(KubeObject, frozen=True):
    """Whose token is this? A plain `create`; the answer is in `status`."""

    class Spec(Struct, frozen=True):
        token: str = ""
        audiences: tuple[str, ...] = ()

        def __repr__(self) -> str:
            return f"Spec(token=***, audiences={self.audiences})"

    class User(Struct, frozen=True):
        username: str = ""
        uid: str = ""
        groups: tuple[str, ...] = ()
        extra: dict[str, tuple[str, ...]] = {}

    class Status(Struct, frozen=True):
        authenticated: bool = False
        user: "TokenReview.User | None" = None
        audiences: tuple[str, ...] = ()
        error: str = ""

    RESOURCE: ClassVar[Resource] = Resource(
        "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False, status=False
    )

    spec: Spec = Spec()
    status: Status = Status()


class SelfSubjectAccessReview(KubeObject, frozen=True):
    """May we do this? A plain `create`; the answer is in `status.allowed`."""

    class Spec(Struct, frozen=True):
        class Attributes(Struct, frozen=True):
            namespace: str = ""
            verb: str = ""
            group: str = ""
            resource: str = ""
            subresource: str = ""
            name: str = ""

        resource_attributes: Attributes = Attributes()

    class Status(Struct, frozen=True):
        allowed: bool = False
        denied: bool = False
        reason: str = ""

    RESOURCE: ClassVar[Resource] = Resource(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
        status=False,
    )

    spec: Spec = Spec()
    status: Status = Status()


class SubjectAccessReview(KubeObject, frozen=True):
    """May this caller do that? A plain `create`; the answer is in `status.allowed`."""

    class Spec(Struct, frozen=True):
        user: str = ""
        groups: tuple[str, ...] = ()
        resource_attributes: SelfSubjectAccessReview.Spec.Attributes = SelfSubjectAccessReview.Spec.Attributes()

    RESOURCE: ClassVar[Resource] = Resource(
        "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False, status=False
    )

    spec: Spec = Spec()
    status: SelfSubjectAccessReview.Status = SelfSubjectAccessReview.Status()


def reference_to(obj: KubeObject) -> ObjectReference:
    """How an event or a review names an object."""
    meta: ObjectMeta = obj.metadata
    return ObjectReference(
        api_version=obj.RESOURCE.api_version,
        kind=obj.RESOURCE.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
