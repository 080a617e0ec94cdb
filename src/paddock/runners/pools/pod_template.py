"""From a pool to the Pod and the ServiceAccount that it asks for. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from paddock.runners.api import POOL_LABEL, RUNNER_LABEL, RunnerPool
from paddock.runners.pools.pod_names import LONGEST_POOL_NAME, POOL_UID, REVISION
from paddock.runners.pools.pod_template_linux import linux_spec
from paddock.runners.pools.pod_template_macos import macos_spec
from paddock.runners.pools.settings import PoolSettings

__all__ = ["owned_by_pod", "owned_by_pool", "pod_of", "service_account_of", "shape_problem"]

Json = dict[str, Any]

_STAYS: Final = tuple(
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
    for taint in ("not-ready", "unreachable")
)
"""Without these, Kubernetes deletes every Pod of a Node that was not heard of for five minutes, and a Mac whose agent was only
cut off ends its VM, job and all, when it is back. Idle Pods there are let go by the pool (`pool_plan`)."""


def shape_problem(pool: RunnerPool, settings: PoolSettings) -> str | None:
    """Why no Pod can be made from this pool, and the remedy. What is privileged fails closed."""
    spec, name = pool.spec, pool.metadata.name
    if len(name) > LONGEST_POOL_NAME:
        return f"the pool's name has {len(name)} characters and labels hold {LONGEST_POOL_NAME}: give it a shorter one"
    if spec.docker and spec.os == "darwin":
        return "spec.docker is for Linux: take it off, or set spec.os to linux"
    if spec.docker and spec.runtime_class not in settings.vm_runtime_classes:
        known = ", ".join(sorted(settings.vm_runtime_classes))
        is_none = f"runtimeClass {spec.runtime_class} is none that counts" if spec.runtime_class else "there is none"
        return (
            f"spec.docker adds a privileged container, which may only run inside a VM of its own, and {is_none}: set "
            f"spec.runtimeClass to one of {known or 'those that --vm-runtime-class names'}, name yours with the operator's "
            "--vm-runtime-class, or take spec.docker off"
        )
    if spec.runner_group and spec.runner_scope == "repository":
        return (
            f"spec.runnerGroup is {spec.runner_group} and only organisations have runner groups: take it off, or take off "
            "spec.runnerScope: repository"
        )
    if spec.os == "linux" and not settings.poller_image:
        return "Linux Pods need an image that polls for jobs: give the operator one (poller_image)"
    return None


def pod_of(pool: RunnerPool, name: str, settings: PoolSettings, *, avoid: Sequence[str] = ()) -> Json:
    """The manifest of one Pod. The caller has asked `shape_problem`; `avoid` are Nodes to stay off."""
    problem = shape_problem(pool, settings)
    assert problem is None, f"no Pod can be made: {problem}"
    env = _environment(pool, settings)
    amounts = {"cpu": f"{pool.spec.pod_cpu_milli}m", "memory": f"{pool.spec.pod_memory_mb}Mi"}
    resources = {"requests": amounts, "limits": dict(amounts)}
    token = _token(settings)
    labels = _labels(pool)
    annotations: Json = {POOL_UID: pool.metadata.uid}
    if pool.spec.os == "darwin":
        spec = macos_spec(pool, env, resources, token)
    else:
        spec = linux_spec(pool, settings, env, resources, token)
        if pool.spec.runtime_class.startswith("kata"):
            annotations["io.katacontainers.config.hypervisor.kernel_params"] = "psi=1"
    if revision := pool.metadata.annotations.get(REVISION):
        annotations[REVISION] = revision
    spec |= {
        "tolerations": [*spec["tolerations"], *_STAYS],
        "restartPolicy": "Never",
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": settings.termination_grace,
    }
    if avoid:
        _keep_off(spec, avoid)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": pool.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }


def service_account_of(pool: RunnerPool, name: str) -> Json:
    """The Pod's account. It is the pool's until there is a Pod, and the Pod's from then on."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": name,
            "namespace": pool.metadata.namespace,
            "labels": _labels(pool),
            "ownerReferences": [owned_by_pool(pool)],
        },
        "automountServiceAccountToken": False,
    }


def owned_by_pool(pool: RunnerPool) -> Json:
    owner = {"apiVersion": RunnerPool.RESOURCE.api_version, "kind": RunnerPool.RESOURCE.kind}
    return owner | {
        "name": pool.metadata.name,
        "uid": pool.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by_pod(name: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


def _labels(pool: RunnerPool) -> Json:
    return {
        "app.kubernetes.io/name": "paddock",
        "app.kubernetes.io/component": "runner",
        RUNNER_LABEL: "true",
        POOL_LABEL: pool.metadata.name,
    }


def _environment(pool: RunnerPool, settings: PoolSettings) -> list[Json]:
    macos = [{"name": "PADDOCK_GITHUB_URL", "value": settings.github_url}] if pool.spec.os == "darwin" else []
    return [
        {"name": "TUIST_RUNNER_DISPATCH_URL", "value": settings.url_for(pool.spec.os)},
        {"name": "TUIST_RUNNER_POOL", "value": pool.metadata.name},
        {"name": "TUIST_RUNNER_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TUIST_RUNNER_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT", "value": "1"},
        *macos,
    ]


def _token(settings: PoolSettings) -> Json:
    """A token for dispatch alone: bound to this Pod, worthless elsewhere, and renewed by the kubelet."""
    source = {"audience": settings.audience, "expirationSeconds": settings.token_seconds, "path": "token"}
    projected = {"defaultMode": 0o400, "sources": [{"serviceAccountToken": source}]}
    return {"name": "tuist-runner-token", "projected": projected}


def _keep_off(spec: Json, nodes: Sequence[str]) -> None:
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]}
        ]
    }
