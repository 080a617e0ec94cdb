"""Questions that are asked by creating an object which is never stored: reviews of tokens and rights, and new tokens."""

from typing import Any

from paddock.embedded.api import status
from paddock.embedded.api.access import API_AUDIENCE, Access
from paddock.embedded.api.calls import ApiCall, Target, User, decode_body
from paddock.embedded.api.node_authorizer import check_token_request, node_name_of
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.rbac import MASTERS, Attributes
from paddock.embedded.api.representation import decode
from paddock.embedded.api.tokens import self_subject_review, token_review
from paddock.embedded.api.validation.causes import invalid
from paddock.embedded.store import Key

__all__ = ["Reviews"]

Json = dict[str, Any]
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"


class Reviews:
    """TokenReview, SelfSubjectReview, the access reviews and TokenRequest."""

    def __init__(self, objects: Objects, access: Access) -> None:
        self._objects = objects
        self._access = access

    async def answer(self, call: ApiCall, target: Target) -> Json | None:
        """The review's answer, or None when the call is not a review."""
        if call.method != "POST":
            return None
        match (target.group, target.plural, target.subresource):
            case (g, "tokenreviews", "") if g == _AUTHENTICATION:
                return await self._token_review(decode_body(call))
            case (g, "selfsubjectreviews", "") if g == _AUTHENTICATION:
                return self_subject_review(_info(call.user), self._objects.clock.now())
            case (g, "selfsubjectaccessreviews", "") if g == _AUTHORIZATION:
                return await self._access_review(target, decode_body(call), call.user)
            case (g, "subjectaccessreviews", "") if g == _AUTHORIZATION:
                body = decode_body(call)
                return await self._access_review(target, body, _subject(target, body))
            case (g, "localsubjectaccessreviews", "") if g == _AUTHORIZATION:
                return await self._local_review(target, decode_body(call))
            case (g, "selfsubjectrulesreviews", "") if g == _AUTHORIZATION:
                return await self._rules_review(decode_body(call), call.user)
            case ("", "serviceaccounts", "token"):
                return await self._token_request(target, decode_body(call), call.user)
            case _:
                return None

    async def _token_review(self, body: Json) -> Json:
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise status.bad_request("token is required for TokenReview in authentication")
        audiences = tuple(spec.get("audiences") or ()) or (API_AUDIENCE,)
        user, audiences = await self._access.review(spec.get("token", ""), audiences)
        return token_review(spec, _info(user) if user is not None else None, audiences)

    async def _local_review(self, target: Target, body: Json) -> Json:
        user, asked = _subject(target, body), (body.get("spec") or {}).get("resourceAttributes") or {}
        if asked.get("namespace", "") != target.namespace:
            why = f"must match metadata.namespace: {target.namespace}"
            raise _refused(target, "spec.resourceAttributes.namespace", asked.get("namespace", ""), why)
        return await self._access_review(target, body, user)

    async def _access_review(self, target: Target, body: Json, user: User) -> Json:
        spec = body.get("spec") or {}
        plain, asked = spec.get("nonResourceAttributes"), spec.get("resourceAttributes") or {}
        if bool(plain) == bool(asked):
            why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise _refused(target, "spec.resourceAttributes", asked or None, why)
        attributes = (
            Attributes(plain.get("verb", ""), path=plain.get("path", "/"))
            if plain
            else Attributes(
                asked.get("verb", ""),
                asked.get("group", ""),
                asked.get("resource", ""),
                asked.get("subresource", ""),
                asked.get("namespace", ""),
                asked.get("name", ""),
            )
        )
        allowed = await self._access.authorizer.allows(user, attributes)
        assert target.kind is not None
        return {
            "kind": target.kind.kind,
            "apiVersion": f"{_AUTHORIZATION}/v1",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": allowed},
        }

    async def _rules_review(self, body: Json, user: User) -> Json:
        namespace = (body.get("spec") or {}).get("namespace", "")
        everything = MASTERS in user.groups
        rules = [] if everything else [rule async for rule in self._access.authorizer.rules(user, namespace)]
        resources = [
            {key: rule[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if rule.get(key)}
            for rule in rules
            if rule.get("resources")
        ]
        paths = [
            {"verbs": rule.get("verbs") or [], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in rules
            if rule.get("nonResourceURLs")
        ]
        if everything:
            resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
            paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        return {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": f"{_AUTHORIZATION}/v1",
            "metadata": {},
            "spec": {},
            "status": {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False},
        }

    async def _token_request(self, target: Target, body: Json, user: User) -> Json:
        assert target.kind is not None
        account = decode(await self._objects.read(target.kind, target.namespace, target.name))
        spec = body.get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        pod: Json | None = None
        if bound:
            if bound.get("kind") != "Pod":
                raise status.bad_request("boundObjectRef.kind: tokens can be bound to Pods here")
            record = await self._objects.store.get(Key("pods", target.namespace, bound.get("name", "")))
            pods = self._objects.kinds.get("", "v1", "pods")
            assert pods is not None
            if record is None:
                raise status.not_found(pods, bound.get("name", ""))
            pod = decode(record)
            if bound.get("uid") and bound["uid"] != pod["metadata"]["uid"]:
                raise status.conflict(
                    pods,
                    bound["name"],
                    f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. The object might have been deleted and then recreated",
                )
        if node := node_name_of(user):
            check_token_request(node, target.kind, target.name, spec, pod)
        return self._access.issuer.issue(
            target.kind,
            account,
            audiences=tuple(spec.get("audiences") or ()) or (API_AUDIENCE,),
            expiration_seconds=spec.get("expirationSeconds"),
            pod=pod,
        )


def _subject(target: Target, body: Json) -> User:
    spec = body.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise _refused(target, "spec.user", "", "at least one of user or group must be specified")
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()))


def _refused(target: Target, field: str, value: Any, why: str) -> status.ApiFailure:
    assert target.kind is not None
    return status.invalid(target.kind, "", [invalid(field, value, why)])


def _info(user: User) -> Json:
    info: Json = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = dict(user.extra)
    return info
