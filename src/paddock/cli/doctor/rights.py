"""Rights, asked of the API server itself: for whoever types, and for the accounts of operator and dispatch."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.base.names import PADDOCK_GROUP
from paddock.cli.connections import Reached
from paddock.cli.doctor.check import Check, bad, good, unknown

if TYPE_CHECKING:
    from paddock.kube.client import Client
    from paddock.kube.roles import Rule

__all__ = ["of_account", "own"]

_AT_ONCE = 16
_READ = ("get", "list")
_CLUSTER_API = "infrastructure.cluster.x-k8s.io"
_NEEDED = (
    # (group, resource, verbs): what the commands use, most of it only to read
    (_CLUSTER_API, "scalewayapplesiliconhosts", (*_READ, "patch")),
    (_CLUSTER_API, "scalewayapplesiliconmachines", (*_READ, "patch", "delete")),
    (PADDOCK_GROUP, "macfleets", _READ),
    (PADDOCK_GROUP, "runnerpools", _READ),
    ("", "pods", (*_READ, "patch")),
    ("", "nodes", (*_READ, "patch")),
    ("", "events", ("list",)),
    ("", "services", ("list",)),
    ("", "services/proxy", ("get",)),
)
_HERE = ("services", "services/proxy")
"""What is needed beside dispatch alone; the rest is looked at in every namespace."""


async def own(reached: Reached) -> Check:
    """Whether whoever types may do what the commands do."""
    wanted = [
        (group, resource, verb, reached.namespace if resource in _HERE else "", "")
        for group, resource, verbs in _NEEDED
        for verb in verbs
    ]
    refused = await _refused(reached.client, wanted)
    if refused is None:
        return unknown("your rights", "the API server does not say what you may do")
    if refused:
        return bad(
            "your rights",
            f"you may not {_words(refused)}",
            "ask for a role with these verbs; `kubectl auth can-i --list` shows what you have",
        )
    return good("your rights", f"you may do all {len(wanted)} things that the commands do")


async def _account(client: "Client", name: str, namespace: str) -> str:
    """The name of the process's account: by the chart's labels, which names it after the release, else the plain one."""
    from paddock.kube.builtin import ServiceAccount

    labels = f"app.kubernetes.io/name=paddock,app.kubernetes.io/component={name}"
    labelled = (await client.list(ServiceAccount, namespace, label_selector=labels)).items
    if labelled:
        return labelled[0].metadata.name
    return (await client.get(ServiceAccount, f"paddock-{name}", namespace)).metadata.name


async def of_account(reached: Reached, name: str, namespace: str) -> list[Check]:
    """Every rule of that process's role, one by one, by impersonating its account."""
    from paddock.kube.client import Client
    from paddock.kube.errors import ForbiddenError, KubeError, NotFoundError

    apply = f"kubectl apply -f deploy/rbac/{name}.yaml, or install the chart"
    account = f"paddock-{name}"
    try:
        account = await _account(reached.client, name, namespace)
    except NotFoundError:
        found = f"there is no account of {name} in namespace {namespace}"
        return [bad(f"{name}'s rights", found, f"{apply}; give --account-namespace if it is elsewhere")]
    except ForbiddenError:
        pass  # who may not look may still act as it
    user = f"system:serviceaccount:{namespace}:{account}"
    [may] = await _allowed(reached.client, [("", "serviceaccounts", "impersonate", namespace, account)]) or [None]
    if not may:
        fix = f"use a kubeconfig that may impersonate {user}, such as the cluster administrator's"
        return [unknown(f"{name}'s rights", f"you may not act as {user}", fix)]
    shown = replace(reached.client.config, impersonate=(("Impersonate-User", user),))
    checks = []
    async with Client(shown) as client:
        for rule, where in _rules(name, reached.namespace):
            wanted = _asked(rule, where)
            try:
                refused = await _refused(client, wanted)
            except KubeError as error:
                return [bad(f"{name}'s rights", str(error), apply)]
            about = f"{name}: {', '.join(rule.resources)}"
            if refused is None:
                checks.append(unknown(about, "the API server does not answer for this account"))
            elif refused:
                found = f"may not {_words(refused)}: {rule.why}"
                checks.append(bad(about, found, apply))
            else:
                checks.append(good(about, ", ".join(rule.verbs)))
    return checks


def _rules(name: str, namespace: str) -> "list[tuple[Rule, str]]":
    """(rule, the namespace in which it must hold; empty for the whole cluster)"""
    from paddock.hosts import roles as hosts
    from paddock.runners.processes import roles as runners

    if name == "dispatch":
        return [(rule, role.namespace) for role in runners.dispatch_roles(namespace) for rule in role.rules]
    everywhere = (*hosts.OPERATOR_CLUSTER_RULES, *runners.OPERATOR_CLUSTER_RULES)
    here = (*hosts.OPERATOR_NAMESPACE_RULES, *runners.OPERATOR_RUNNERS_RULES)
    return [*((rule, "") for rule in everywhere), *((rule, namespace) for rule in here)]


Asked = tuple[str, str, str, str, str]
"""(group, resource with its subresource, verb, namespace, name)"""


def _asked(rule: "Rule", namespace: str) -> list[Asked]:
    return [
        (rule.group, resource, verb, namespace, name)
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.names or ("",)
    ]


async def _refused(client: "Client", wanted: Sequence[Asked]) -> list[Asked] | None:
    answers = await _allowed(client, wanted)
    return None if answers is None else [one for one, may in zip(wanted, answers, strict=True) if not may]


async def _allowed(client: "Client", wanted: Sequence[Asked]) -> list[bool] | None:
    """Whether each is allowed; None where the server has no such question."""
    from paddock.kube.builtin import SelfSubjectAccessReview
    from paddock.kube.errors import NotFoundError

    gate = asyncio.Semaphore(_AT_ONCE)
    spec = SelfSubjectAccessReview.Spec

    async def ask(one: Asked) -> bool:
        group, resource, verb, namespace, name = one
        plural, _, below = resource.partition("/")
        attributes = spec.Attributes(
            namespace=namespace, verb=verb, group=group, resource=plural, subresource=below, name=name
        )
        async with gate:
            review = SelfSubjectAccessReview(spec=spec(resource_attributes=attributes))
            return (await client.create(review)).status.allowed

    try:
        return await asyncio.gather(*(ask(one) for one in wanted))
    except NotFoundError:
        return None


def _words(refused: Sequence[Asked]) -> str:
    """`get and list pods in runners, create tokenreviews`"""
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for _, resource, verb, namespace, _ in refused:
        verbs[resource, namespace].append(verb)
    return ", ".join(
        f"{' and '.join(several)} {resource}{f' in {namespace}' if namespace else ''}"
        for (resource, namespace), several in verbs.items()
    )
