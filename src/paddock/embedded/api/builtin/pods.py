"""What the server adds to a Pod, what it refuses, and the little that may change once a Pod exists."""

import copy
from decimal import Decimal
from typing import Any

from paddock.embedded.api.status import ApiFailure, Cause, bad_request
from paddock.embedded.api.validation.causes import (
    LABEL_HELP,
    duplicate,
    forbidden,
    invalid,
    is_dns_label,
    missing,
    unsupported,
)
from paddock.kube.quantity import QuantityError, parse_quantity

__all__ = ["admit_new_pod", "default_pod", "keep_admitted", "pod_causes", "pod_change_causes"]

_Json = dict[str, Any]

_PRIORITY_CLASSES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _fill(target: _Json, **defaults: Any) -> None:
    for name, value in defaults.items():
        if target.get(name) in (None, ""):
            target[name] = value


# Defaults


def default_pod(pod: _Json) -> None:
    """Fill in, in place, what every stored Pod has. Idempotent; refuses quantities that cannot be read (400)."""
    spec = pod["spec"] = pod.get("spec") or {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    _fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
        enableServiceLinks=True,
        serviceAccountName=account,
    )
    spec["serviceAccount"] = spec["serviceAccountName"]
    _tolerate_short_outages(spec)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for container in _containers(spec):
        _default_container(container)


def _tolerate_short_outages(spec: _Json) -> None:
    """A Pod stays on a node that is away for five minutes, unless it says something else about such nodes."""
    tolerations: list[_Json] = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, "", None) and t.get("effect") in ("NoExecute", "", None) for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _containers(spec: _Json) -> list[_Json]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _default_volume(volume: _Json) -> None:
    if not any(source is not None for name, source in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "projected", "downwardAPI"):
        if isinstance(volume.get(name), dict):
            _fill(volume[name], defaultMode=420)


def _default_container(container: _Json) -> None:
    _fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if _tag(container.get("image") or "") == "latest" else "IfNotPresent",
    )
    resources = container["resources"]
    for amounts in (resources.get("limits"), resources.get("requests")):
        for amount in (amounts or {}).values():
            _readable(amount)
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        _fill(port, protocol="TCP")
    for variable in container.get("env") or ():
        source = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(source, dict):
            _fill(source, apiVersion="v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := container.get(name), dict):
            for field, value in (
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ):
                probe[field] = probe.get(field) or value
            if isinstance(probe.get("httpGet"), dict):
                _fill(probe["httpGet"], path="/", scheme="HTTP")


def _readable(amount: Any) -> Decimal:
    try:
        return parse_quantity(amount)
    except QuantityError as error:
        raise bad_request(f'Pod in version "v1" cannot be handled as a Pod: {error}') from None


def _tag(image: str) -> str:
    """The tag of an image; `latest` where neither a tag nor a digest is given."""
    name, at, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return tag if colon else "" if at else "latest"


def admit_new_pod(pod: _Json) -> None:
    """What admission adds, in place, to a Pod that is being created: its priority and its first status."""
    spec, name = pod["spec"], (pod.get("metadata") or {}).get("name", "")
    priority_class = spec.get("priorityClassName") or ""
    if priority_class not in _PRIORITY_CLASSES:
        raise _forbidden(name, f"no PriorityClass with name {priority_class} was found")
    priority = _PRIORITY_CLASSES[priority_class]
    if spec.get("priority") not in (None, priority):
        raise _forbidden(
            name,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    _fill(spec, preemptionPolicy="PreemptLowerPriority")
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def keep_admitted(old: _Json, new: _Json) -> None:
    """Carry over, in place, what admission added when the Pod was made: `kubectl replace` sends the manifest without it."""
    before, spec = old.get("spec") or {}, new["spec"]
    for name in ("priority", "preemptionPolicy"):
        if spec.get(name) is None and name in before:
            spec[name] = before[name]


def _forbidden(name: str, why: str) -> ApiFailure:
    return ApiFailure(403, "Forbidden", f'pods "{name}" is forbidden: {why}', {"name": name, "kind": "pods"})


def _quality(spec: _Json) -> str:
    """Guaranteed if every container's cpu and memory are limited and requested alike, BestEffort if nothing is asked."""
    asks = False
    guaranteed = True
    for container in _containers(spec):
        resources = container.get("resources") or {}
        limits, requests = (
            {
                name: amount
                for name, text in (resources.get(part) or {}).items()
                if name in ("cpu", "memory") and (amount := parse_quantity(text)) > 0
            }
            for part in ("limits", "requests")
        )
        asks = asks or bool(limits or requests)
        guaranteed = guaranteed and set(limits) == {"cpu", "memory"} and limits == requests
    return "BestEffort" if not asks else "Guaranteed" if guaranteed else "Burstable"


# Rules


def pod_causes(pod: _Json) -> list[Cause]:
    """Everything that is wrong with a defaulted Pod."""
    spec = pod.get("spec") or {}
    causes: list[Cause] = []
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        causes += _named(f"spec.volumes[{index}].name", volume.get("name") or "", volumes)
    names: set[str] = set()
    if not spec.get("containers"):
        causes.append(missing("spec.containers"))
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            causes += _container_causes(f"spec.{part}[{index}]", container, volumes, names)
    for field, supported in (
        ("restartPolicy", ("Always", "OnFailure", "Never")),
        ("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    ):
        if spec.get(field) not in supported:
            causes.append(unsupported(f"spec.{field}", spec.get(field), supported))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline < 2**31:
        causes.append(invalid("spec.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        causes += _toleration_causes(f"spec.tolerations[{index}]", toleration)
    return causes


def _named(field: str, name: str, taken: set[str]) -> list[Cause]:
    if not name:
        return [missing(field)]
    if not is_dns_label(name):
        return [invalid(field, name, LABEL_HELP)]
    if name in taken:
        return [duplicate(field, name)]
    taken.add(name)
    return []


def _container_causes(where: str, container: _Json, volumes: set[str], names: set[str]) -> list[Cause]:
    name = container.get("name") or ""
    causes = [] if name in names else _named(f"{where}.name", name, set())
    if not container.get("image"):
        causes.append(missing(f"{where}.image"))
    for index, port in enumerate(container.get("ports") or ()):
        causes += _port_causes(f"{where}.ports[{index}]", port)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(missing(f"{where}.env[{index}].name"))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{where}.volumeMounts[{index}]"
        if not mount.get("name"):
            causes.append(missing(f"{at}.name"))
        elif mount["name"] not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{at}.name"))
        if not mount.get("mountPath"):
            causes.append(missing(f"{at}.mountPath"))
    policies = ("Always", "IfNotPresent", "Never")
    if container.get("imagePullPolicy") not in policies:
        causes.append(unsupported(f"{where}.imagePullPolicy", container.get("imagePullPolicy"), policies))
    causes += _resource_causes(f"{where}.resources", container.get("resources") or {})
    if name in names:
        causes.append(duplicate(f"{where}.name", name))
    elif name:
        names.add(name)
    return causes


def _port_causes(where: str, port: _Json) -> list[Cause]:
    number = port.get("containerPort")
    if not number:
        return [missing(f"{where}.containerPort")]
    if not 0 < number < 65536:
        return [invalid(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive")]
    protocols = ("SCTP", "TCP", "UDP")
    bad = port.get("protocol") not in protocols
    return [unsupported(f"{where}.protocol", port.get("protocol"), protocols)] if bad else []


def _resource_causes(where: str, resources: _Json) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = [
        invalid(f"{where}.{part}[{name}]", amount, "must be greater than or equal to 0")
        for part, amounts in (("limits", limits), ("requests", requests))
        for name, amount in amounts.items()
        if parse_quantity(amount) < 0
    ]
    causes += [
        invalid(f"{where}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")
        for name, amount in requests.items()
        if name in limits and parse_quantity(amount) > parse_quantity(limits[name])
    ]
    return causes


def _toleration_causes(where: str, toleration: _Json) -> list[Cause]:
    causes: list[Cause] = []
    key, sign, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
    if not key and sign != "Exists":
        causes.append(
            invalid(
                f"{where}.operator",
                sign,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if sign not in ("", "Equal", "Exists"):
        causes.append(unsupported(f"{where}.operator", sign, ("Equal", "Exists")))
    if sign == "Exists" and toleration.get("value"):
        causes.append(
            invalid(f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
        )
    if effect and effect not in _EFFECTS:
        causes.append(unsupported(f"{where}.effect", effect, _EFFECTS))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(invalid(f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    return causes


def pod_change_causes(old: _Json, new: _Json) -> list[Cause]:
    """Why a Pod may not change in this way: only images, a nearer deadline and further tolerations may."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if before == after:
        return []  # a label or an annotation, mostly
    for part in ("containers", "initContainers"):
        if len(before.get(part) or ()) != len(after.get(part) or ()):
            return [forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
    causes = _deadline_causes(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"))
    kept = [_untimed(t) for t in after.get("tolerations") or ()]
    if any(_untimed(t) not in kept for t in before.get("tolerations") or ()):
        causes.append(
            forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    same = copy.deepcopy(after)
    for part in ("containers", "initContainers"):
        for container, was in zip(same.get(part) or (), before.get(part) or (), strict=True):
            container["image"] = was.get("image")
    for free in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        same.pop(free, None)
        if free in before:
            same[free] = before[free]
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and same.get("terminationGracePeriodSeconds") == 1:
        same["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    changed = sorted(name for name in {*same, *before} if same.get(name) != before.get(name))
    if changed:
        listed = "".join(f"\nspec.{name} would change" for name in changed)
        causes.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}{listed}"))
    return causes


def _untimed(toleration: _Json) -> _Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value}


def _deadline_causes(before: int | None, after: int | None) -> list[Cause]:
    field = "spec.activeDeadlineSeconds"
    if after is None:
        why = "must not update from a positive integer to nil value"
        return [] if before is None else [invalid(field, None, why)]
    if not 0 <= after < 2**31:
        return [invalid(field, after, "must be between 0 and 2147483647, inclusive")]
    if before is not None and before < after:
        return [invalid(field, after, "must be less than or equal to previous value")]
    return []
