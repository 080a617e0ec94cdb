"""What a person may do from a page: the plan first, with everything that it ends; then, and only then, the deed.

A plan is a pure function of what was seen. The deed reads again, uncached, which jobs run there: a job that came since
the plan was shown is a reason to show it again, never to end it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from paddock.base.explanation import span
from paddock.base.logs import get_logger
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, Pod
from paddock.kube.client import Client
from paddock.kube.events import EventRecorder
from paddock.kube.objects import KubeObject
from paddock.runners.api import OPERATOR_DRAIN_LABEL, OWNER_LABEL, RUNNER_LABEL
from paddock.views.cordon import cordon_change, operators_cordon
from paddock.views.finding import Mac, busy_pods, find_mac, works
from paddock.views.giving_back import fate, give_back, successor
from paddock.web.finding import find_pod, job_on
from paddock.web.page_data import PageData

__all__ = ["VERBS", "ActionPlan", "Actor", "Verb", "offered", "plan"]

log = get_logger("page")

Verb = Literal["release", "quarantine", "unquarantine", "drain", "undrain", "drain-pod"]
VERBS: Final[Mapping[str, str]] = {
    "drain": "Drain",
    "undrain": "Take jobs again",
    "quarantine": "Quarantine",
    "unquarantine": "End quarantine",
    "release": "Release",
    "drain-pod": "Drain",
}

_LOST: Final[Mapping[str, str]] = {
    "pooled": "It cannot be undone: the disk is wiped.",
    "terminated": "It cannot be undone: the cloud deletes the Mac.",
    "kept": "It cannot be undone: the machine is gone.",
}


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What would be done, in order, and what it ends. `refused` says why it cannot be done, where it cannot."""

    verb: Verb
    name: str
    title: str
    steps: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    """Jobs that it ends, each with whose it is and how far it is."""
    ended_pods: tuple[str, ...] = ()
    gentler: tuple[str, str] | None = None
    """What to offer first instead: words and address."""
    undo: str = ""
    back: tuple[str, str] = ("", "")
    """Kind and name of the page to go back to."""
    command: str = ""
    refused: str = ""
    about: KubeObject | None = None


def offered(kind: str, mac: Mac | None, pod: Pod | None) -> list[Verb]:
    """What may be done to an object, the mildest first."""
    if pod is not None:
        return ["drain-pod"] if pod.metadata.labels.get(RUNNER_LABEL) == "true" else []
    if mac is None:
        return []
    verbs: list[Verb] = []
    if mac.node is not None:
        if not mac.node.spec.unschedulable or operators_cordon(mac.node):
            verbs.append("drain")
        if mac.node.spec.unschedulable:
            verbs.append("undrain")
    if kind == "host" and mac.host is not None:
        verbs.append("unquarantine" if mac.host.spec.quarantine else "quarantine")
    if mac.machine is not None and mac.machine.metadata.deletion_timestamp is None:
        verbs.append("release")
    return verbs


def plan(verb: str, name: str, seen: PageData) -> ActionPlan | None:
    """The plan, or None where there is no such verb or no such thing."""
    if verb not in VERBS:
        return None
    if verb == "drain-pod":
        pod = find_pod(seen, name)
        return _drain_pod(pod) if pod is not None else None
    mac = find_mac(name, seen.hosts, seen.machines, seen.nodes)
    if mac is None:
        return None
    match verb:
        case "release":
            made = _release(mac, name, seen)
        case "quarantine" | "unquarantine":
            made = _quarantine(mac, name, on=verb == "quarantine")
        case _:
            made = _drain(mac, name, seen, on=verb == "drain")
    return replace(made, back=("host", mac.host.metadata.name) if mac.host is not None else ("machine", name))


def _release(mac: Mac, name: str, seen: PageData) -> ActionPlan:
    machine, host = mac.machine, mac.host
    base = ActionPlan("release", name, f"Release {name}", command=f"paddock release {name}")
    if machine is None:
        return replace(base, refused="It belongs to no machine, so there is nothing to release.")
    if machine.metadata.deletion_timestamp is not None:
        return replace(base, refused="It is being released already.")
    busy = busy_pods(seen.pods, machine.metadata.name)
    steps = [f"delete machine {machine.metadata.name}"]
    becomes = fate(mac)
    if host is not None:
        steps.append(becomes.sentence)
    if follows := successor(mac):
        steps.append(follows)
    draining = mac.node is not None and mac.node.spec.unschedulable
    return replace(
        base,
        title=f"Release machine {machine.metadata.name}",
        steps=tuple(steps),
        ends=tuple(_ended(pod, seen) for pod in busy),
        ended_pods=tuple(sorted(pod.metadata.uid for pod in busy)),
        gentler=("Drain it first: the job finishes, then release it", f"/actions/drain/{name}")
        if busy and not draining
        else None,
        undo=_LOST[becomes.becomes],
        about=machine,
    )


def _ended(pod: Pod, seen: PageData) -> str:
    job, who = job_on(seen, pod), pod.metadata.labels.get(OWNER_LABEL, "an unknown account")
    if job is None:
        return f"Pod {pod.metadata.name}, at work for {who}"
    what = f"{job.repository} · {job.job_name or job.workflow_name}"
    return f"1 running job of {job.login}, {span(seen.now - (job.executing_since or job.started_at))} in: {what}"


def _quarantine(mac: Mac, name: str, *, on: bool) -> ActionPlan:
    host, verb = mac.host, "quarantine" if on else "unquarantine"
    base = ActionPlan(verb, name, f"{VERBS[verb]}: {name}", command=f"paddock {verb} {name}")
    if host is None:
        return replace(base, refused="The machine has no host yet.")
    if bool(host.spec.quarantine) == on:
        return replace(base, refused=f"It is {'quarantined already' if on else 'not quarantined'}.")
    if not on:
        return replace(
            base,
            steps=(f"host {host.metadata.name} may be claimed again",),
            undo="To undo it, quarantine it again.",
            about=host,
        )
    steps = [f"no machine claims host {host.metadata.name} any more"]
    if host.spec.claim is not None:
        steps.append(f"machine {host.spec.claim.machine_name} keeps it, and its jobs, until it is released")
    return replace(
        base,
        steps=tuple(steps),
        undo="To undo it, end the quarantine.",
        command=f'{base.command} --reason "…"',
        about=host,
    )


def _drain(mac: Mac, name: str, seen: PageData, *, on: bool) -> ActionPlan:
    verb = "drain" if on else "undrain"
    base = ActionPlan(verb, name, f"{VERBS[verb]}: {name}", command=f"paddock {verb} {name}")
    if mac.node is None:
        return replace(base, refused="It has no Node, so it takes no jobs anyway.")
    doing = operators_cordon(mac.node)
    if mac.node.spec.unschedulable == on and not doing:
        return replace(base, refused=f"It is {'draining already' if on else 'not drained'}.")
    node = mac.node.metadata.name
    if not on:
        return replace(
            base,
            steps=(
                f"uncordon Node {node}: it takes jobs again",
                *([f"the operator closed it for the {doing}, and closes it again while that lasts"] if doing else []),
            ),
            undo="To undo it, drain it again.",
            about=mac.node,
        )
    steps = [f"cordon Node {node}: no new runner starts there", "retire its idle runners"]
    steps += [f"let Pod {pod.metadata.name} finish its job" for pod in busy_pods(seen.pods, node)]
    return replace(base, steps=tuple(steps), undo="To undo it, let it take jobs again.", about=mac.node)


def _drain_pod(pod: Pod) -> ActionPlan:
    name = pod.metadata.name
    base = ActionPlan(
        "drain-pod", name, f"Drain Pod {name}", command=f"paddock drain {name}", about=pod, back=("pod", name)
    )
    if pod.metadata.labels.get(RUNNER_LABEL) != "true":
        return replace(base, refused="It is no runner of ours.")
    if pod.metadata.labels.get(OPERATOR_DRAIN_LABEL) == "true":
        return replace(base, refused="It is draining already.")
    steps = ["give it no job any more; it exits when it next asks for one", "its pool makes another in its place"]
    return replace(
        base,
        steps=(*(["let its job finish"] if works(pod) else []), *steps),
        undo="It cannot be undone; its pool makes another.",
    )


class Actor:
    """Does what was planned, and writes down who did it and why."""

    def __init__(self, client: Client, recorder: EventRecorder | None = None) -> None:
        self._client = client
        self._recorder = recorder

    async def act(self, plan: ActionPlan, *, who: str, why: str, shown: frozenset[str]) -> None:
        """Do it. `shown` are the Pods whose end the person was shown; JobsCameError where others work. Errors of the API are
        the caller's.
        """
        assert plan.about is not None
        assert not plan.refused
        await self._do(plan, why, shown)
        log.warning("a person acted", who=who, action=plan.verb, on=plan.name, why=why, ends=list(plan.ends))
        if self._recorder is not None:
            said = f"{who} asked for it on the page{f': {why}' if why else ''}"
            reason = "".join(word.title() for word in plan.verb.split("-"))
            self._recorder.record(plan.about, "Normal", f"{reason}Requested", said)

    async def _do(self, plan: ActionPlan, why: str, shown: frozenset[str]) -> None:
        client, meta = self._client, plan.about.metadata if plan.about is not None else None
        assert meta is not None
        # The uid in each patch: an object that was made anew under the name is another one, and is not meant.
        match plan.verb:
            case "release":
                assert isinstance(plan.about, ScalewayAppleSiliconMachine)
                await give_back(client, plan.about, shown=shown)
            case "quarantine" | "unquarantine":
                reason = (why or "no reason was given") if plan.verb == "quarantine" else None
                change = {"metadata": {"uid": meta.uid}, "spec": {"quarantine": reason}}
                await client.merge_patch(ScalewayAppleSiliconHost, meta.name, change, namespace=meta.namespace)
            case "drain" | "undrain":
                assert isinstance(plan.about, Node)
                await client.merge_patch(Node, meta.name, cordon_change(plan.about, on=plan.verb == "drain"))
            case "drain-pod":
                marked = {"metadata": {"uid": meta.uid, "labels": {OPERATOR_DRAIN_LABEL: "true"}}}
                await client.merge_patch(Pod, meta.name, marked, namespace=meta.namespace)
