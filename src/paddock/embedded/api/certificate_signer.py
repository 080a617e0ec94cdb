"""Signs approved requests for node certificates, and approves a node's renewal of its own: what kube-controller-manager
does in a cluster. One signer only, `kubernetes.io/kube-apiserver-client-kubelet`; requests for others stay as they are.

Every step looks at what is stored and can be repeated: died between approval and signature, or before either, the next
start sees the request again.
"""

import base64
from datetime import datetime, timedelta
from typing import Any, Final

from paddock.base.clock import parse_rfc3339, rfc3339
from paddock.base.logs import get_logger
from paddock.embedded.api.calls import User
from paddock.embedded.api.client_authority import (
    LONGEST,
    ClientAuthority,
    UnusableRequestError,
    read_request,
    subject_of,
)
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.guards import CSRS
from paddock.embedded.api.node_authorizer import KUBELET_CLIENT, NODES
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.rbac import Attributes, Authorizer
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Key

__all__ = ["CertificateSigner", "problem_with"]

Json = dict[str, Any]
log = get_logger("certificates")

_WRITE = Write(manager="paddock", subresource="status")
_REQUIRED = frozenset({"client auth", "digital signature"})
_ALLOWED = _REQUIRED | {"key encipherment"}
_KEPT: Final = timedelta(hours=1)
_TRY_AGAIN_AFTER: Final = 1.0


def problem_with(spec: Json) -> str:
    """Why a request is not one for a node's client certificate, in a sentence; empty if it is one. (pure)"""
    try:
        request = read_request(base64.b64decode(spec.get("request") or ""))
    except (UnusableRequestError, ValueError) as error:
        return str(error)
    name, groups = subject_of(request.subject)
    if groups != (NODES,):
        return f"the organisation must be {NODES} and no other"
    if not name.startswith("system:node:") or name == "system:node:":
        return "the common name must be system:node: and the node's name"
    if len(request.extensions):
        return "the request names alternative names or other extensions"
    usages = set(spec.get("usages") or ())
    if not _REQUIRED <= usages <= _ALLOWED:
        return f"the usages must be {', '.join(sorted(_REQUIRED))}"
    return ""


class CertificateSigner:
    """Follows requests until cancelled."""

    def __init__(self, objects: Objects, authority: ClientAuthority, authorizer: Authorizer) -> None:
        self._objects = objects
        self._authority = authority
        self._authorizer = authorizer

    async def run(self) -> None:
        async with WatchFanout(self._objects.store, self._objects.kinds).follow(CSRS) as changes:
            async for change in changes:
                if change.kind == "DELETED":
                    continue
                while not await self._looked_at(change.record.key.name):
                    await self._objects.clock.sleep(_TRY_AGAIN_AFTER)

    async def _looked_at(self, name: str) -> bool:
        """Whether a request is where it can be now. While the store is away it is not, and nobody changes it for us."""
        try:
            await self.look_at(name)
        except ApiFailure as failure:
            log.warning("a request was not signed", request=name, why=failure.message)
            return failure.code != 503
        except Exception:  # one request that cannot be read keeps no other from being signed
            log.exception("a request cannot be read and is not signed", request=name)
        return True

    async def look_at(self, name: str) -> None:
        """Bring one request as far as it can go now."""
        record = await self._objects.store.get(Key(CSRS, "", name))
        request = decode(record) if record is not None else {}
        spec = request.get("spec") or {}
        if spec.get("signerName") != KUBELET_CLIENT:
            return
        now = self._objects.clock.now()
        said = {condition["type"] for condition in (request.get("status") or {}).get("conditions") or ()}
        if not said & {"Approved", "Denied", "Failed"} and await self._renews_itself(spec):
            why = "Auto approving kubelet client certificate after SubjectAccessReview."
            await self._say(name, "Approved", "AutoApproved", why, now)
            return  # the change comes round, and is signed then
        if "Approved" not in said or said & {"Denied", "Failed"} or (request.get("status") or {}).get("certificate"):
            return
        if problem := problem_with(spec):
            await self._say(name, "Failed", "SignerValidationFailure", problem, now)
            return
        asked = timedelta(seconds=spec["expirationSeconds"]) if spec.get("expirationSeconds") else LONGEST
        try:
            pem = self._authority.sign(read_request(base64.b64decode(spec["request"])), asked, now)
        except UnusableRequestError as error:
            await self._say(name, "Failed", "SignerValidationFailure", str(error), now)
            return
        await self._write(name, {"certificate": base64.b64encode(pem).decode()})
        await self._tidy(now)

    async def _renews_itself(self, spec: Json) -> bool:
        """Whether a node asks for its own next certificate, and nodes may (`…:selfnodeclient`)."""
        if problem_with(spec):
            return False
        user = User(spec.get("username", ""), tuple(spec.get("groups") or ()))
        name, _ = subject_of(read_request(base64.b64decode(spec["request"])).subject)
        asked = Attributes("create", "certificates.k8s.io", "certificatesigningrequests", "selfnodeclient")
        return user.name == name and await self._authorizer.allows(user, asked)

    async def _say(self, name: str, type_: str, reason: str, message: str, now: datetime) -> None:
        said = {"type": type_, "status": "True", "reason": reason, "message": message}
        moments = {"lastUpdateTime": rfc3339(now), "lastTransitionTime": rfc3339(now)}
        await self._write(name, {"conditions": [said | moments]})

    async def _write(self, name: str, part: Json) -> None:
        kind = self._objects.kinds.by_resource(CSRS)
        assert kind is not None

        def told(request: Json) -> Json:
            held = request.get("status") or {}
            conditions = [*(held.get("conditions") or ()), *(part.get("conditions") or ())]
            request["status"] = {**held, **part, **({"conditions": conditions} if conditions else {})}
            return request

        await self._objects.change(kind, "", name, told, _WRITE)

    async def _tidy(self, now: datetime) -> None:
        """Requests that were answered over an hour ago, or never within a day, go."""
        kind = self._objects.kinds.by_resource(CSRS)
        assert kind is not None
        for record in (await self._objects.store.list(CSRS)).records:
            request = decode(record)
            age = now - parse_rfc3339(request["metadata"]["creationTimestamp"])
            if age > (_KEPT if (request.get("status") or {}).get("certificate") else LONGEST):
                try:
                    await self._objects.delete(kind, "", record.key.name, DeleteOptions())
                except ApiFailure as failure:
                    if failure.code != 404:  # another client was quicker
                        raise
