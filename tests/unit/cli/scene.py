"""A cluster and a ledger with one of everything: a ready Mac, an orphaned one, a machine without a host, a pool, Pods, jobs."""

from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result
from msgspec import to_builtins
from msgspec.structs import replace
from unit.cli.cluster import Cluster
from unit.cli.ledger_service import LedgerService
from unit.hosts.made import OTHER_ID, SERVER_ID, claim, host, machine

from paddock.base.clock import SystemClock, rfc3339
from paddock.cli import main
from paddock.hosts.api import MacFleet, MacFleetSpec
from paddock.kube.builtin import Event, Node, NodeSpec, ObjectReference, Pod
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference
from paddock.runners.api import AUDIENCE, FLEET_LABEL, OWNER_LABEL, POOL_LABEL, RUNNER_LABEL, RunnerPool, RunnerPoolSpec

NOW = SystemClock().now().replace(microsecond=0)
FREE_ID = "33333333-3333-4333-8333-333333333333"
JOB, OTHER_JOB, DONE_JOB = 4001, 4002, 4003


def ready(status: str, reason: str, message: str) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=NOW),)


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: Cluster
    ledger: LedgerService

    def type(self, *words: str, answer: str = "") -> Result:
        """Type a command with the flags that reach this scene."""
        flags = ["--kubeconfig", str(self.cluster.kubeconfig), "--server", self.ledger.url]
        return CliRunner().invoke(main, [*words, *flags], input=answer)

    def put(self, obj: Any) -> Any:
        return self.cluster.create(obj, to_builtins(obj.status) or None)


def set_up(cluster: Cluster, ledger: LedgerService) -> Scene:
    scene = Scene(cluster, ledger)
    fleet = scene.put(MacFleet(metadata=_meta("blue"), spec=MacFleetSpec(replicas=2)))
    above = OwnerReference(api_version="tuist.dev/v1alpha1", kind="MacFleet", name="blue", uid=fleet.metadata.uid)
    for name, has in (("blue-1", SERVER_ID), ("blue-2", "")):
        said = ready("True", "Ready", "runs") if has else ready("False", "NoAvailableHost", "no host is free")
        made = machine(
            name, ready=bool(has), phase="Ready" if has else "Pending", server_id=has, host_name=has, conditions=said
        )
        made = scene.put(replace(made, metadata=replace(made.metadata, owner_references=(above,))))
        if has:
            scene.put(host(spec={"claim": claim(made)}, cloud_name=name, state="owned", price_per_hour="0.290000000"))
            scene.cluster.create(_event(made, "Adopted", "has a host"))
    nobodys = ready("False", "NoOwner", "no machine names it")
    scene.put(host(OTHER_ID, cloud_name="blue-0", state="stranded", conditions=nobodys))
    scene.put(host(FREE_ID))
    scene.put(Node(metadata=_meta("blue-1", "", **{FLEET_LABEL: "blue"}), spec=NodeSpec(provider_id="scw://x")))
    _runners(scene)
    ledger.json.update(retirement())
    return scene


def _runners(scene: Scene) -> None:
    spec = RunnerPoolSpec(
        image="runner:1",
        job_source="Webhook",
        fleet_selector="blue",
        dispatch_label="mac",
        runner_labels=("macOS",),
        replicas=2,
    )
    pool = RunnerPool(metadata=_meta("macs"), spec=spec)
    status = {"idle": 1, "busy": 1, "conditions": to_builtins(ready("True", "AllReady", "all are up"))}
    scene.cluster.create(pool, status)
    token = {"serviceAccountToken": {"audience": AUDIENCE, "path": "token"}}
    for name, owner in (("runner-1", "acme"), ("runner-2", "")):
        labels = {RUNNER_LABEL: "true", POOL_LABEL: "macs", **({OWNER_LABEL: owner} if owner else {})}
        pod = {
            "metadata": to_builtins(_meta(name, **labels)),
            "spec": {
                "nodeName": "blue-1",
                "containers": [{"name": "runner", "image": "runner:1"}],
                "volumes": [{"name": "token", "projected": {"sources": [token]}}],
            },
        }
        scene.cluster.ask(lambda client, pod=pod: client.create(pod, Pod.RESOURCE))
        change = {"status": {"phase": "Running"}}
        scene.cluster.ask(
            lambda client, name=name, change=change: client.merge_patch(
                Pod, name, change, namespace="default", subresource="status"
            )
        )


def _meta(name: str, namespace: str = "default", **labels: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=labels)


def _event(about: Any, reason: str, message: str) -> Event:
    meta, resource = about.metadata, about.RESOURCE
    return Event(
        metadata=_meta(f"{meta.name}.{reason.lower()}"),
        involved_object=ObjectReference(
            api_version=resource.api_version, kind=resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
        ),
        reason=reason,
        message=message,
        type="Normal",
        count=1,
        first_timestamp=NOW,
        last_timestamp=NOW,
    )


def retirement() -> dict[str, Any]:
    """What the ledger's routes answer."""
    at = rfc3339(NOW)
    job = {
        "account_id": 1,
        "login": "acme",
        "repository": "acme/app",
        "workflow_name": "CI",
        "pool": "macs",
        "platform": "macos",
    }
    waiting = {**job, "job_id": JOB, "job_name": "test", "label": "mac", "enqueued_at": at, "waiting_seconds": 1.0}
    running = {**job, "job_id": OTHER_JOB, "job_name": "build", "enqueued_at": at, "claimed_at": at, "started_at": at}
    done = {**job, "job_id": DONE_JOB, "job_name": "lint", "conclusion": "success", "completed_at": at}
    why = {"about": f"job {JOB}", "sentence": "acme/app · test has waited 1 s", "healthy": True}
    strip = {
        "oldest_dispatchable_seconds": 0.0,
        "dispatchable": 1,
        "withheld": 2,
        "resting": 0,
        "claimed": 0,
        "running": 1,
    }
    line = {"id": 1, "at": at, "subject": "job", "was": None, "became": "queued", "by": "webhook", "why": "announced"}
    return {
        "strip": {
            **strip, "sessions_open": 1, "completed_last_hour": 3, "killed_last_day": 2, "forced_last_day": 2,
        },
        "queue": [{**waiting, "reason": "in_line", "why": "Next in line.", "position": 1, "until": None}],
        "running": [{**running, "executing_since": at, "pod_uid": "u", "pod_name": "runner-1", "runner_name": "runner-1-x"}],
        "recent": [{**done, "runner_name": "runner-0-x", "enqueued_at": at, "started_at": at}],
        "claims": [
            {
                "pod_uid": "u", "pod_name": "runner-1", "generation": 7, "state": "running", "job_id": OTHER_JOB,
                "account_id": 1, "pool": "macs", "platform": "macos", "vcpus": 6, "memory_mb": 14336,
                "runner_name": "runner-1-x", "dispatcher_id": 1, "claimed_at": at, "executing_since": at,
                "missing_since": None, "by": "dispatch", "why": "minted",
            }
        ],
        "accounts": [
            {
                "account_id": 1, "login": "acme", "installation_id": 9, "platform": "macos", "limit_vcpus": 12,
                "limit_memory_mb": 28672, "used_vcpus": 6, "used_memory_mb": 14336, "claims": 1, "queued": 1,
            }
        ],
        "heals": [
            {
                "id": 5, "at": at, "kind": "leaked_pod", "subject": "pod runner-9", "pod_uid": "v", "job_id": None,
                "sentence": "it was deleted: nobody held it", "evidence": {"github": "offline"}, "seconds": 300.0,
                "done_at": at,
            }
        ],
        "kills": [
            {
                "kill_key": "u-4", "at": at, "path": "force", "pod_uid": "u-4", "pod_name": "runner-4", "account": "acme",
                "machine": "blue-4", "job_id": 4, "why": "machine default/blue-4 was deleted", "recorded_at": at,
            }
        ],
        "leaks": [],
        f"jobs/{JOB}": {"job": {**waiting, "status": "queued"}, "sessions": [], "transitions": [line]},
        f"why/job/{JOB}": why,
        "why/pool/macs": {"about": "pool macs", "sentence": "all are up"},
        "why/pod/runner-1": {"about": "pod runner-1", "sentence": "runs a job"},
    }  # fmt: skip
