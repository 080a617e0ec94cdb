"""Who a client is and what it may do: tokens, reviews, roles."""

from __future__ import annotations

import base64
import json

from conformance.target import GROUP, Api, Json, causes, refusal

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
RBAC = "rbac.authorization.k8s.io/v1"


async def account(api: Api, name: str = "robot") -> Json:
    return await api.make(api.path("serviceaccounts"), {"metadata": {"name": name}})


async def token_for(api: Api, name: str = "robot", **spec: object) -> Json:
    return (await api.make(f"{api.path('serviceaccounts')}/{name}/token", {"spec": spec}))["status"]


def claims(token: str) -> Json:
    middle = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


async def review(api: Api, token: str, *audiences: str) -> Json:
    spec: Json = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return (await api.make(REVIEWS, {"spec": spec}))["status"]


async def grant(api: Api, verbs: list[str], resources: list[str], group: str = "", name: str = "robot") -> None:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    await api.make(api.path("roles", RBAC), {"metadata": {"name": "r"}, "rules": [rule]})
    await api.make(
        api.path("rolebindings", RBAC),
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": api.namespace}],
        },
    )


async def test_without_a_token_nobody_is_let_in(api: Api) -> None:
    for token in (None, "nonsense"):
        stranger = await api.speaking(token)
        answer = await stranger.get(api.pods)
        if api.is_real and token is None:
            # A real server knows an anonymous user, who may read nothing; ours knows none.
            assert answer.status_code == 403
            continue
        assert refusal(answer, 401, "Unauthorized") == "Unauthorized"


async def test_an_account_token_says_who_it_is_for(api: Api) -> None:
    made = await account(api)
    status = await token_for(api, expirationSeconds=3600)
    held = claims(status["token"])
    assert held["sub"] == f"system:serviceaccount:{api.namespace}:robot"
    assert held["kubernetes.io"]["namespace"] == api.namespace
    assert held["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": made["metadata"]["uid"]}
    assert held["exp"] - held["iat"] == 3600
    assert {"aud", "exp", "iat", "nbf", "iss", "jti"} <= set(held)
    assert status["expirationTimestamp"].endswith("Z")


async def test_a_token_lives_ten_minutes_at_least(api: Api) -> None:
    await account(api)
    answer = await api.http.post(f"{api.path('serviceaccounts')}/robot/token", json={"spec": {"expirationSeconds": 60}})
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {
        "spec.expirationSeconds": "FieldValueInvalid: Invalid value: 60: may not specify a duration less than 10 minutes"
    }


async def test_a_token_lives_an_hour_unless_asked(api: Api) -> None:
    await account(api)
    issued = await api.make(f"{api.path('serviceaccounts')}/robot/token", {"spec": {}})
    assert issued["kind"] == "TokenRequest"
    assert issued["spec"]["expirationSeconds"] == 3600
    assert issued["spec"]["audiences"]
    assert issued["metadata"]["name"] == "robot"


async def test_an_absent_account_gets_no_token(api: Api) -> None:
    answer = await api.http.post(f"{api.path('serviceaccounts')}/nobody/token", json={"spec": {}})
    assert refusal(answer, 404, "NotFound") == 'serviceaccounts "nobody" not found'


async def test_a_token_review_tells_who_holds_the_token(api: Api) -> None:
    made = await account(api)
    status = await review(api, (await token_for(api))["token"])
    assert status["authenticated"] is True
    user = status["user"]
    assert user["username"] == f"system:serviceaccount:{api.namespace}:robot"
    assert user["uid"] == made["metadata"]["uid"]
    assert sorted(user["groups"]) == [
        "system:authenticated",
        "system:serviceaccounts",
        f"system:serviceaccounts:{api.namespace}",
    ]


async def test_a_token_for_another_audience_opens_no_door_here(api: Api) -> None:
    await account(api)
    token = (await token_for(api, audiences=["elsewhere"]))["token"]
    assert claims(token)["aud"] == ["elsewhere"]
    guest = await api.speaking(token)
    refusal(await guest.get(api.pods), 401, "Unauthorized")
    assert (await review(api, token)).get("authenticated", False) is False
    there = await review(api, token, "elsewhere", "third")
    assert there["authenticated"] is True
    assert there["audiences"] == ["elsewhere"]
    assert (await review(api, token, "third")).get("authenticated", False) is False


async def test_a_broken_token_is_not_authenticated(api: Api) -> None:
    status = await review(api, "not.a.token")
    assert status.get("authenticated", False) is False
    await account(api)
    token = (await token_for(api))["token"]
    head, body, signature = token.split(".")
    forged = f"{head}.{body}.{signature[:-4]}{'AAAA' if not signature.endswith('AAAA') else 'BBBB'}"
    assert (await review(api, forged)).get("authenticated", False) is False


async def test_a_token_dies_with_its_account(api: Api) -> None:
    await account(api)
    token = (await token_for(api))["token"]
    await api.delete(f"{api.path('serviceaccounts')}/robot")

    async def dead() -> bool:
        return not (await review(api, token)).get("authenticated", False)

    await api.eventually(dead)


async def test_a_token_bound_to_a_pod_dies_with_the_pod(api: Api) -> None:
    await account(api)
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "serviceAccountName": "robot",
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    made = await api.make(api.pods, pod)
    uid = made["metadata"]["uid"]
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid}
    token = (await token_for(api, boundObjectRef=reference))["token"]
    assert claims(token)["kubernetes.io"]["pod"] == {"name": "p", "uid": uid}
    status = await review(api, token)
    assert status["authenticated"] is True
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [uid]
    await api.delete(f"{api.pods}/p")

    async def dead() -> bool:
        return not (await review(api, token)).get("authenticated", False)

    await api.eventually(dead)


async def test_a_token_cannot_be_bound_to_another_incarnation_of_a_pod(api: Api) -> None:
    await account(api)
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    await api.make(api.pods, {"metadata": {"name": "p"}, "spec": {**spec, "automountServiceAccountToken": False}})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "11111111-1111-1111-1111-111111111111"}
    answer = await api.http.post(
        f"{api.path('serviceaccounts')}/robot/token", json={"spec": {"boundObjectRef": reference}}
    )
    assert "does not match the UID" in refusal(answer, 409, "Conflict")


async def test_an_account_without_rights_is_refused_in_these_words(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    me = f'User "system:serviceaccount:{api.namespace}:robot"'
    where = f'in the namespace "{api.namespace}"'
    for answer, message in (
        (
            await robot.get(api.gadgets),
            f'gadgets.{GROUP} is forbidden: {me} cannot list resource "gadgets" in API group "{GROUP}" {where}',
        ),
        (
            await robot.get(f"{api.gadgets}/g"),
            f'gadgets.{GROUP} "g" is forbidden: {me} cannot get resource "gadgets" in API group "{GROUP}" {where}',
        ),
        (
            await robot.post(api.pods, json={"metadata": {"name": "p"}}),
            f'pods is forbidden: {me} cannot create resource "pods" in API group "" {where}',
        ),
        (
            await robot.get("/api/v1/nodes"),
            f'nodes is forbidden: {me} cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            await robot.get(f"{api.gadgets}/g/status"),
            f'gadgets.{GROUP} "g" is forbidden: {me} cannot get resource "gadgets/status" in API group "{GROUP}" {where}',
        ),
        (
            await robot.get(api.configmaps, params={"watch": "true"}),
            f'configmaps is forbidden: {me} cannot watch resource "configmaps" in API group "" {where}',
        ),
        (
            await robot.delete(api.configmaps),
            f'configmaps is forbidden: {me} cannot deletecollection resource "configmaps" in API group "" {where}',
        ),
    ):
        assert refusal(answer, 403, "Forbidden") == message
    answer = await robot.get("/metrics")
    assert refusal(answer, 403, "Forbidden") == f'forbidden: {me} cannot get path "/metrics"'


async def test_a_binding_gives_exactly_the_rights_of_its_role(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    await grant(api, ["get", "list"], ["gadgets"], GROUP)
    await api.make_gadget("g")

    async def may_list() -> bool:
        return (await robot.get(api.gadgets)).status_code == 200

    await api.eventually(may_list)
    assert (await robot.get(f"{api.gadgets}/g")).status_code == 200
    assert (await robot.get(f"{api.gadgets}/g/status")).status_code == 403
    assert (await robot.get(api.gadgets, params={"watch": "true"})).status_code == 403
    assert (await robot.post(api.gadgets, json=api.gadget("h"))).status_code == 403
    assert (await robot.get(api.configmaps)).status_code == 403
    assert (await robot.get(f"/apis/{GROUP}/v1/gadgets")).status_code == 403
    await api.delete(f"{api.path('rolebindings', RBAC)}/b")

    async def may_not() -> bool:
        return (await robot.get(api.gadgets)).status_code == 403

    await api.eventually(may_not)


async def test_a_rule_can_name_the_objects_it_is_about(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]}
    await api.make(api.path("roles", RBAC), {"metadata": {"name": "r"}, "rules": [rule]})
    await api.make(
        api.path("rolebindings", RBAC),
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [
                {
                    "kind": "Group",
                    "apiGroup": "rbac.authorization.k8s.io",
                    "name": f"system:serviceaccounts:{api.namespace}",
                }
            ],
        },
    )
    for name in ("mine", "other"):
        await api.make(api.configmaps, {"metadata": {"name": name}})

    async def may_read_mine() -> bool:
        return (await robot.get(f"{api.configmaps}/mine")).status_code == 200

    await api.eventually(may_read_mine)
    assert (await robot.get(f"{api.configmaps}/other")).status_code == 403


async def test_everybody_may_read_discovery_and_ask_about_themselves(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    for path in ("/api", "/apis", "/api/v1", f"/apis/{GROUP}/v1", "/openapi/v3", "/version"):
        assert (await robot.get(path)).status_code == 200, path
    who = await robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
    assert who.status_code == 201
    assert who.json()["kind"] == "SelfSubjectReview"
    assert who.json()["status"]["userInfo"]["username"] == f"system:serviceaccount:{api.namespace}:robot"
    assert f"system:serviceaccounts:{api.namespace}" in who.json()["status"]["userInfo"]["groups"]


async def test_an_access_review_answers_what_a_request_would_meet(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    await grant(api, ["get"], ["pods/log", "configmaps"])

    async def may(verb: str, resource: str, **more: str) -> bool:
        attributes = {"namespace": api.namespace, "verb": verb, "resource": resource, **more}
        answer = await robot.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json={"spec": {"resourceAttributes": attributes}}
        )
        assert answer.status_code == 201, answer.text
        body = answer.json()
        assert body["kind"] == "SelfSubjectAccessReview"
        assert body["spec"]["resourceAttributes"]["verb"] == verb
        return body["status"]["allowed"]

    async def granted() -> bool:
        return await may("get", "configmaps")

    await api.eventually(granted)
    assert await may("get", "pods", subresource="log")
    assert not await may("get", "pods")
    assert not await may("delete", "configmaps")
    assert not await may("get", "configmaps", namespace="default")


async def test_the_administrator_may_do_everything(api: Api) -> None:
    attributes = {"verb": "*", "group": "*", "resource": "*"}
    answer = await api.make(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
    )
    assert answer["status"]["allowed"] is True
    path = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    answer = await api.make("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": path})
    assert answer["status"]["allowed"] is True


async def test_a_rules_review_lists_what_was_granted(api: Api) -> None:
    await account(api)
    robot = await api.speaking((await token_for(api))["token"])
    await grant(api, ["get"], ["configmaps"])

    async def listed() -> bool:
        answer = await robot.post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json={"spec": {"namespace": api.namespace}}
        )
        assert answer.status_code == 201
        rules = answer.json()["status"]["resourceRules"]
        return {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]} in rules

    await api.eventually(listed)


async def test_a_subject_access_review_asks_about_others(api: Api) -> None:
    await account(api)
    await grant(api, ["get"], ["configmaps"])
    user = f"system:serviceaccount:{api.namespace}:robot"

    async def allowed() -> bool:
        attributes = {"namespace": api.namespace, "verb": "get", "resource": "configmaps"}
        answer = await api.make(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {"spec": {"user": user, "resourceAttributes": attributes}},
        )
        return answer["status"]["allowed"]

    await api.eventually(allowed)


async def test_a_role_reference_cannot_change(api: Api) -> None:
    await grant(api, ["get"], ["configmaps"])
    path = f"{api.path('rolebindings', RBAC)}/b"
    answer = await api.patch(path, {"roleRef": {"name": "other"}})
    refusal(answer, 422, "Invalid")
    assert "roleRef" in causes(answer)


async def test_who_may_impersonate_is_taken_for_another(api: Api) -> None:
    await account(api)
    name = f"system:serviceaccount:{api.namespace}:robot"
    answer = await api.http.get(api.gadgets, headers={"Impersonate-User": name})
    assert f'User "{name}" cannot list resource "gadgets"' in refusal(answer, 403, "Forbidden")
    answer = await api.http.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json={},
        headers=[("Impersonate-User", "rita"), ("Impersonate-Group", "one"), ("Impersonate-Group", "two")],
    )
    who = answer.json()["status"]["userInfo"]
    assert (who["username"], sorted(who["groups"])) == ("rita", ["one", "system:authenticated", "two"])
    robot = await api.speaking((await token_for(api))["token"])
    answer = await robot.get(api.gadgets, headers={"Impersonate-User": "rita"})
    assert f'User "{name}" cannot impersonate' in refusal(answer, 403, "Forbidden")


async def test_an_apply_that_makes_an_object_needs_the_right_to_create(api: Api) -> None:
    await account(api)
    await grant(api, ["get", "patch", "update"], ["gadgets"], GROUP)
    robot = await api.speaking((await token_for(api))["token"])
    await api.make_gadget("there")

    async def applied(name: str) -> int:
        answer = await robot.patch(
            f"{api.gadgets}/{name}",
            json=api.gadget(name, {"color": "red"}),
            headers={"Content-Type": "application/apply-patch+yaml"},
            params={"fieldManager": "robot"},
        )
        return answer.status_code

    async def may_apply() -> bool:
        return await applied("there") == 200

    await api.eventually(may_apply)
    assert await applied("absent") == 403
    assert (await api.http.get(f"{api.gadgets}/absent")).status_code == 404


async def test_every_account_may_read_the_keys_that_tokens_are_verified_with(api: Api) -> None:
    await account(api)
    token = (await token_for(api))["token"]
    robot = await api.speaking(token)
    found = await robot.get("/.well-known/openid-configuration")
    assert found.status_code == 200
    told = found.json()
    assert told["issuer"] == claims(token)["iss"]
    assert told["jwks_uri"].endswith("/openid/v1/jwks")
    assert told["subject_types_supported"] == ["public"]
    answer = await robot.get("/openid/v1/jwks")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/jwk-set+json"
    keys = {key["kid"]: key for key in answer.json()["keys"]}
    kid = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))["kid"]
    assert keys[kid]["use"] == "sig"
    assert keys[kid]["alg"] in told["id_token_signing_alg_values_supported"]
    assert "d" not in keys[kid], "the private part stays where it is"
    plain = await robot.get("/openid/v1/jwks", headers={"Accept": "application/json"})
    assert plain.status_code == 406, "who takes JSON alone gets no keys"
    both = await robot.get("/openid/v1/jwks", headers={"Accept": "application/json, */*"})
    assert both.status_code == 200


async def test_the_keys_are_not_for_strangers(api: Api) -> None:
    stranger = await api.speaking("nonsense")
    for path in ("/openid/v1/jwks", "/.well-known/openid-configuration"):
        assert (await stranger.get(path)).status_code == 401
