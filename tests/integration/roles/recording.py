"""Holds a role against what a process really asks of the API: every request it makes, and every right it has.

Give a process's client a transport of `Requests`, let it live through everything that it does, and ask: `not_granted` must
be empty, and `never_asked` only what the caller can explain. Where the roles are installed, too, the process can act under
them, and `forbidden` is what the server really refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import httpx2
import yaml

from paddock.embedded.api.calls import demanded
from paddock.embedded.api.rbac import Attributes, rule_allows
from paddock.kube.client import Client
from paddock.kube.resource import Resource
from paddock.kube.roles import Role, Rule

__all__ = ["Asked", "Requests", "Right", "install", "rights_of"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """What the API server asks its authorizer about one request. An empty namespace is the whole cluster."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Of a list or a watch of one object alone, by its field selector; of nothing else."""

    @property
    def attributes(self) -> Attributes:
        return Attributes(self.verb, self.group, self.resource, self.subresource, self.namespace, self.name)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, in a namespace or (empty) in the cluster: the smallest part of a role."""

    namespace: str
    group: str
    resource: str
    verb: str

    def serves(self, asked: Asked) -> bool:
        what = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        here = not self.namespace or self.namespace == asked.namespace
        return here and (self.group, self.resource, self.verb) == (asked.group, what, asked.verb)


def rights_of(roles: Iterable[Role]) -> set[Right]:
    """Roles taken apart."""
    return {
        Right(role.namespace, rule.group, resource, verb)
        for role in roles
        for rule in role.rules
        for resource in rule.resources
        for verb in rule.verbs
    }


@dataclass
class Requests:
    """What was asked so far, and what the server forbade, by everybody whose client goes through a transport of this."""

    seen: set[Asked] = field(default_factory=set)
    forbidden: set[Asked] = field(default_factory=set)

    def transport(self, inner: httpx2.AsyncBaseTransport) -> httpx2.AsyncBaseTransport:
        return _Recorded(inner, self)

    def attach(self, client: Client, account: str = "") -> Client:
        """Record a client that exists already and has not sent anything yet.

        With an `account` (`namespace:name`) it moreover acts as that ServiceAccount, so that the server refuses what the
        account's roles do not grant.
        """
        connection = client.connection
        assert connection._transport is not None, "only a client over a transport of its own can be recorded"
        connection._transport = self.transport(connection._transport)
        if account:
            acting = (("Impersonate-User", f"system:serviceaccount:{account}"),)
            client.config = connection.config = replace(connection.config, impersonate=acting)
        return client

    def note(self, request: httpx2.Request) -> Asked:
        asked = _asked(request)
        self.seen.add(asked)
        if request.headers.get("content-type", "").startswith(_APPLY):
            # Applying what does not exist creates it, and the server then asks about that as well.
            self.seen.add(Asked("create", asked.group, asked.resource, asked.subresource, asked.namespace))
        return asked

    def not_granted(self, roles: Iterable[Role]) -> list[Asked]:
        """What a server would have refused; judged by the API's own reading of the rules."""
        granted = list(roles)
        return sorted(asked for asked in self.seen if not any(_allows(role, asked) for role in granted))

    def never_asked(self, roles: Iterable[Role]) -> set[Right]:
        """What the roles grant and nobody used."""
        return {right for right in rights_of(roles) if not any(right.serves(asked) for asked in self.seen)}


async def install(api: Client, text: str) -> None:
    """Create everything in a file that `make roles` writes."""
    for document in yaml.safe_load_all(text):
        group, _, version = document["apiVersion"].rpartition("/")
        kind, namespaced = document["kind"], "namespace" in document["metadata"]
        where = Resource(group, version, kind, f"{kind.lower()}s", namespaced=namespaced, status=False)
        await api.create(document, where)


class _Recorded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, requests: Requests) -> None:
        self._inner = inner
        self._requests = requests

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/openid/"):
            # The cluster's public keys: every ServiceAccount may read them, by a role that each cluster has.
            return await self._inner.handle_async_request(request)
        asked = self._requests.note(request)
        response = await self._inner.handle_async_request(request)
        if response.status_code == 403:
            self._requests.forbidden.add(asked)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _allows(role: Role, asked: Asked) -> bool:
    here = not role.namespace or role.namespace == asked.namespace
    return here and any(_rule_allows(rule, asked) for rule in role.rules)


def _rule_allows(rule: Rule, asked: Asked) -> bool:
    return rule_allows(rule.manifest(), asked.attributes)


def _asked(request: httpx2.Request) -> Asked:
    parts = [unquote(part) for part in request.url.path.strip("/").split("/")]
    assert parts[0] in {"api", "apis"}, f"{request.url.path} names no resource"
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = rest[0], "".join(rest[1:2]), "/".join(rest[2:])
    if request.method == "GET":
        verb = "get" if name else "watch" if "watch" in request.url.params else "list"
    else:
        verb = _VERBS[request.method]
        assert name or verb == "create", f"{request.method} {request.url.path} is about a whole collection"
    one = demanded(request.url.params.get("fieldSelector", "")).get("metadata.name", "")
    return Asked(verb, group, resource, subresource, namespace, one)
