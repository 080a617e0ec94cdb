"""All that a Mac's certificate may do on a real kube-apiserver: each resource that the server has, with each verb that there is.

A review of rules shows what roles grant and hides what the Node authorizer decides. So the server is asked about each by itself,
and what it allows is what the table of docs/design/node-identity.md says, no more and no less.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from docs.documents import ROOT
from kube.test_node_identity import HOME, World, until, world

from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource

__all__ = ["world"]

PAGE = ROOT / "docs" / "design" / "node-identity.md"
REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False, status=False
)
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
NAMED = ("get", "update", "patch", "delete")
VERBS = (*NAMED, "create", "list", "watch", "deletecollection")
SIGNERS, ROLES = "signers.certificates.k8s.io", "roles.rbac.authorization.k8s.io"
WITHOUT_OBJECTS = {
    "approve": (SIGNERS,),
    "sign": (SIGNERS,),
    "attest": (SIGNERS,),
    "bind": (ROLES, f"cluster{ROLES}"),
    "escalate": (ROLES, f"cluster{ROLES}"),
    "impersonate": ("users", "groups", "serviceaccounts", "userextras.authentication.k8s.io"),
    "create": ("certificatesigningrequests.certificates.k8s.io/selfnodeclient",),
}
"""Rights that the server asks for, too, though no resource with this verb is served."""
LEASES, NODE_LEASES = "leases.coordination.k8s.io", "kube-node-lease"
MAC, POD, ACCOUNT = "real-20", "own-20", "node-test-runner"
AT_ONCE = 16

Rights = dict[str, tuple[frozenset[str], frozenset[str]]]
"""By resource: what is allowed of any name, and what of its own name beyond that."""


@dataclass(frozen=True)
class Place:
    """A resource, where it is asked about, and the Mac's own object of it."""

    resource: str
    namespace: str
    own: str
    own_selector: str = ""

    @property
    def row(self) -> str:
        return f"{self.resource} in {NODE_LEASES}" if self.namespace == NODE_LEASES else self.resource


def place(resource: str, *, namespaced: bool) -> Place:
    namespace = HOME if namespaced else ""
    match resource.partition("/")[0]:
        case "pods":
            return Place(resource, namespace, POD, f"spec.nodeName={MAC}")
        case "resourceslices.resource.k8s.io":
            return Place(resource, namespace, MAC, f"spec.nodeName={MAC}")
        case "serviceaccounts":
            return Place(resource, namespace, ACCOUNT)
        case "namespaces":
            return Place(resource, namespace, "kube-system")
        case _:
            return Place(resource, namespace, MAC)


def discovered(world: World) -> list[Place]:
    """Each resource and subresource of every group and version that the server has."""
    found: dict[str, Place] = {}
    with world.plane.client() as http:
        for root in ("/api", "/apis"):
            for group in http.get(root, headers=AGGREGATED).raise_for_status().json()["items"]:
                suffix = f".{name}" if (name := group["metadata"].get("name", "")) else ""
                for kind in [kind for version in group["versions"] for kind in version["resources"]]:
                    for part in ("", *(f"/{sub['subresource']}" for sub in kind.get("subresources", ()))):
                        resource = f"{kind['resource']}{suffix}{part}"
                        found[resource] = place(resource, namespaced=kind["scope"] == "Namespaced")
    return [*found.values(), Place(LEASES, NODE_LEASES, MAC)]


async def may(client: Client, verb: str, where: Place, name: str, selector: str = "") -> bool:
    whole, _, subresource = where.resource.partition("/")
    plural, _, group = whole.partition(".")
    asked: dict[str, Any] = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    asked |= {"namespace": where.namespace, "name": name}
    if selector:
        asked["fieldSelector"] = {"rawSelector": selector}
    return (await client.create({"spec": {"resourceAttributes": asked}}, REVIEW))["status"]["allowed"]


async def rights(client: Client, places: list[Place]) -> Rights:
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(where: Place, verb: str) -> tuple[str, str, bool, bool]:
        async with gate:
            anybodys = await may(client, verb, where, "another" if verb in NAMED else "")
            selector = where.own_selector if verb in ("list", "watch") else ""
            own = anybodys or await may(client, verb, where, "" if selector else where.own, selector)
            return where.row, verb, anybodys, own

    questions = [(where, verb) for where in places for verb in VERBS]
    questions += [(place(name, namespaced=False), verb) for verb, names in WITHOUT_OBJECTS.items() for name in names]
    found: dict[str, tuple[set[str], set[str]]] = {}
    for row, verb, anybodys, own in await asyncio.gather(*(ask(*question) for question in questions)):
        if own:
            found.setdefault(row, (set(), set()))[0 if anybodys else 1].add(verb)
    return {row: (frozenset(anybodys), frozenset(own)) for row, (anybodys, own) in found.items()}


def documented() -> Rights:
    section = PAGE.read_text(encoding="utf-8").partition("## Every right of the certificate")[2].partition("\n## ")[0]
    found: Rights = {}
    for line in [line for line in section.splitlines() if line.startswith("| `")]:
        names, anybodys, own, _ = (cell.strip() for cell in line.strip("|").split("|"))
        verbs = [frozenset(re.findall(r"[a-z]+", cell)) for cell in (anybodys, own)]
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in found, f"{name} is in two rows"
            found[name] = (verbs[0], verbs[1])
    return found


async def test_a_certificate_has_the_rights_of_the_table_and_no_other(world: World):
    mac = await world.mac(MAC)
    await mac.create(Node(metadata=ObjectMeta(name=MAC)))
    await world.pod(POD, MAC)
    places = discovered(world)
    own_pod = next(each for each in places if each.resource == "pods")
    await until("the authorizer knows of the Pod", lambda: may(mac, "get", own_pod, POD))
    assert len(places) > 100, "the whole API was discovered"
    assert await rights(mac, places) == documented()
