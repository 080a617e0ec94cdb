"""Who is asking: the administrator's token from the kubeconfig, a client certificate or a ServiceAccount token of ours."""

from collections.abc import Mapping
from typing import Any

from paddock.base.clock import Clock, parse_rfc3339
from paddock.embedded.api import status
from paddock.embedded.api.calls import User
from paddock.embedded.api.client_authority import CertifiedUser, ClientAuthority
from paddock.embedded.api.node_authorizer import NodeAuthorizer, node_name_of
from paddock.embedded.api.rbac import MASTERS, Attributes, Authorizer
from paddock.embedded.api.representation import decode
from paddock.embedded.api.tokens import StaticTokens, TokenIssuer, VerifiedToken, user_info
from paddock.embedded.store import Key, Record, Store
from paddock.hosts.api import IDENTITY_SINCE

__all__ = ["ADMIN", "API_AUDIENCE", "Access"]

API_AUDIENCE = "https://kubernetes.default.svc"
_GAINED = ("serviceaccounts", "certificatesigningrequests")
AUTHENTICATED = "system:authenticated"
ADMIN = User("paddock-admin", (MASTERS, AUTHENTICATED))


class Access:
    """Authentication for every request and for TokenReview.

    A ServiceAccount token counts only while what it is bound to lives: the ServiceAccount of that uid, and the Pod of
    that uid where it names one. So a deleted Pod's token is worthless at once, not when it expires.

    A node's certificate counts, where `machines` names the kind that nodes are made from, only while a Machine of the
    node's name lives that is not younger than the certificate: so the certificate of a Mac that was given back is worthless
    at once, too, and no namesake inherits it. A Machine that was forced away leaves Pods on its Mac: until these have ended,
    the node may go on, because only it can say how they end, and the Mac would wait for its wipe for ever; it gets no token
    and no other certificate meanwhile.
    """

    def __init__(
        self,
        store: Store,
        issuer: TokenIssuer,
        static: StaticTokens,
        clock: Clock,
        *,
        authority: ClientAuthority | None = None,
        machines: str = "",
    ) -> None:
        self._store = store
        self._static = static
        self._clock = clock
        self._authority = authority
        self._machines = machines
        self._nodes = NodeAuthorizer(store)
        self.issuer = issuer
        self.authorizer = Authorizer(store, self._as_node)

    async def authenticate(self, authorization: str, certificate: bytes = b"") -> User:
        """Whom the certificate of the connection speaks for, else the token; 401 if neither speaks for anybody."""
        ours = False
        if certificate and self._authority is not None:
            shown = self._authority.identify(certificate, self._clock.now())
            if shown is not None and await self._lives(shown):
                return shown.user
            ours = shown is not None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            refused = status.unauthorized()
            # A Mac that is being taken speaks on for a moment, with a certificate that was good until now.
            refused.usual = ours
            raise refused
        user = await self.user_of(token.strip(), (API_AUDIENCE,))
        if user is None:
            raise status.unauthorized()
        return user

    async def acting_as(self, user: User, headers: Mapping[str, str]) -> User:
        """Whom a request asks to be taken for (`kubectl --as`), if its sender may impersonate them; 403 if not."""
        name = headers.get("impersonate-user", "")
        groups = tuple(group for part in headers.get("impersonate-group", "").split(",") if (group := part.strip()))
        if not name:
            if groups:
                raise status.bad_request("requested impersonation of groups without impersonating a user")
            return user
        match name.split(":"):
            case ["system", "serviceaccount", namespace, account]:
                wanted = [Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=account)]
                groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            case _:
                wanted = [Attributes("impersonate", resource="users", name=name)]
        if headers.get("impersonate-group"):
            wanted += [Attributes("impersonate", resource="groups", name=group) for group in groups]
        for asked in wanted:
            if not await self.authorizer.allows(user, asked):
                raise status.forbidden(asked.refusal(user))
        return User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))))

    async def user_of(self, token: str, audiences: tuple[str, ...]) -> User | None:
        """The user behind a token meant for one of these audiences, or None."""
        user, _ = await self.review(token, audiences or (API_AUDIENCE,))
        return user

    async def review(self, token: str, audiences: tuple[str, ...]) -> tuple[User | None, tuple[str, ...]]:
        """The user behind a token, or None; and those of these audiences that it is meant for, which are all of them
        for the administrator's and for one that is no user's.
        """
        if self._static.knows(token):
            return ADMIN, audiences
        verified = self.issuer.verify(token, audiences, self._clock.now())
        if not isinstance(verified, VerifiedToken):
            return None, audiences
        return (_user_of(verified) if await self._alive(verified) else None), verified.audiences

    async def _as_node(self, user: User, asked: Attributes) -> bool:
        node = node_name_of(user)
        if not node or not await self._nodes.allows(node, asked):
            return False
        if asked.verb == "create" and asked.resource in _GAINED and self._machines:
            # A node without a Machine says how its Pods end, and gets nothing more: not for whom it is, nor for how long.
            return await self._machine(node) is not None
        return True

    async def is_over_for(self, user: User, asked: Attributes) -> bool:
        """Whether a Mac asks once more for what was its own until now: its Pod, that Pod's token, or anything after its Machine.

        It does so in every forced deletion: nobody means harm, and the refusal is no warning.
        """
        node = node_name_of(user)
        if not node:
            return False
        if self._machines and await self._machine(node) is None:
            return True
        mine = (asked.resource, asked.subresource) in {("pods", ""), ("pods", "status"), ("serviceaccounts", "token")}
        # Every runner Pod has a service account of its own name.
        return mine and bool(asked.name) and await self._store.get(Key("pods", asked.namespace, asked.name)) is None

    async def _lives(self, shown: CertifiedUser) -> bool:
        node = node_name_of(shown.user)
        if not node or not self._machines:
            return True
        machine = await self._machine(node)
        if machine is None:
            return await self._has_unfinished_pods(node)
        meta = decode(machine)["metadata"]
        if ended := (meta.get("annotations") or {}).get(IDENTITY_SINCE):
            # Both are whole seconds: a certificate of the same second may be from before it.
            return parse_rfc3339(ended) < shown.since
        return parse_rfc3339(meta["creationTimestamp"]) <= shown.since

    async def _machine(self, node: str) -> Record | None:
        records = (await self._store.list(self._machines)).records
        return next((record for record in records if record.key.name == node), None)

    async def _has_unfinished_pods(self, node: str) -> bool:
        if await self._store.get(Key("nodes", "", node)) is None:
            return False
        pods = [decode(record) for record in (await self._store.list("pods")).records]
        return any(
            (pod.get("spec") or {}).get("nodeName") == node
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for pod in pods
        )

    async def _alive(self, token: VerifiedToken) -> bool:
        bound = [("serviceaccounts", token.service_account, token.service_account_uid)]
        if token.pod:
            bound.append(("pods", token.pod, token.pod_uid))
        for resource, name, uid in bound:
            record = await self._store.get(Key(resource, token.namespace, name))
            if record is None or _uid(decode(record)) != uid:
                return False
        return True


def _user_of(token: VerifiedToken) -> User:
    shown = user_info(token)
    return User(shown["username"], tuple(shown["groups"]), shown["uid"], shown.get("extra", {}))


def _uid(obj: dict[str, Any]) -> str:
    return obj["metadata"]["uid"]
