import base64
import json
import random
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from doubles.clocks import SteppedClock

from paddock.base.secrets import Secret
from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.tokens import (
    StaticTokens,
    TokenIssuer,
    UnusableKeyError,
    VerifiedToken,
    generate_key,
    self_subject_review,
    token_review,
    user_info,
)

NOW = datetime(2026, 6, 12, 7, 0, tzinfo=UTC)
ISSUER = "https://kubernetes.default.svc"
ACCOUNTS = next(kind for kind in KINDS if kind.plural == "serviceaccounts")
ACCOUNT = {"metadata": {"name": "robot", "namespace": "ci", "uid": "sa-uid"}}
POD = {"metadata": {"name": "runner-1", "namespace": "ci", "uid": "pod-uid"}, "spec": {"serviceAccountName": "robot"}}
NODE = {"metadata": {"name": "mac-1", "uid": "node-uid"}}
KEY = generate_key()


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def issuer(key=KEY):
    return TokenIssuer(key, ISSUER, SteppedClock(NOW), random.Random(1))


def token(**how):
    return issuer().issue(ACCOUNTS, ACCOUNT, **how)["status"]["token"]


def forged(changed, key=None, algorithm="ES256"):
    said = jwt.decode(token(), options={"verify_signature": False})
    return jwt.encode({**said, **changed}, key or KEY.reveal(), algorithm)


def test_a_token_request_is_answered_with_what_was_granted():
    answer = issuer().issue(ACCOUNTS, ACCOUNT)
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert answer["metadata"]["name"] == "robot"
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-06-12T08:00:00Z"


def test_the_claims_are_those_of_the_real_server():
    issued = token(audiences=["a", "b"], expiration_seconds=600, pod=POD, node=NODE)
    claims = jwt.decode(issued, options={"verify_signature": False})
    at = int(NOW.timestamp())
    assert claims.pop("jti")
    assert claims == {
        "aud": ["a", "b"],
        "exp": at + 600,
        "iat": at,
        "nbf": at,
        "iss": ISSUER,
        "sub": "system:serviceaccount:ci:robot",
        "kubernetes.io": {
            "namespace": "ci",
            "serviceaccount": {"name": "robot", "uid": "sa-uid"},
            "pod": {"name": "runner-1", "uid": "pod-uid"},
            "node": {"name": "mac-1", "uid": "node-uid"},
        },
    }
    assert jwt.get_unverified_header(issued) == {"alg": "ES256", "kid": issuer().key_id}


def test_what_was_issued_is_verified_with_everything_it_is_bound_to():
    verified = issuer().verify(token(pod=POD, node=NODE), [ISSUER], NOW)
    assert isinstance(verified, VerifiedToken)
    assert (verified.namespace, verified.service_account, verified.service_account_uid) == ("ci", "robot", "sa-uid")
    assert (verified.pod, verified.pod_uid, verified.node, verified.node_uid) == (
        "runner-1",
        "pod-uid",
        "mac-1",
        "node-uid",
    )
    assert verified.audiences == (ISSUER,)
    assert verified.expires == NOW + timedelta(hours=1)


def test_an_rsa_key_signs_too():
    key = pem(rsa.generate_private_key(65537, 2048))
    theirs = TokenIssuer(key, ISSUER, SteppedClock(NOW))
    issued = theirs.issue(ACCOUNTS, ACCOUNT)["status"]["token"]
    assert jwt.get_unverified_header(issued)["alg"] == "RS256"
    assert isinstance(theirs.verify(issued, [ISSUER], NOW), VerifiedToken)


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (599, "Invalid value: 599: may not specify a duration less than 10 minutes"),
        (2**33, "Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_a_lifetime_out_of_bounds_is_refused_in_the_real_words(seconds, message):
    with pytest.raises(ApiFailure) as refusal:
        token(expiration_seconds=seconds)
    assert refusal.value.code == 422
    assert refusal.value.message == (
        f'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: {message}'
    )


def test_a_token_is_not_bound_to_a_pod_of_another_account():
    other = {**POD, "spec": {"serviceAccountName": "other"}}
    with pytest.raises(ApiFailure) as refusal:
        token(pod=other)
    assert (refusal.value.code, "different serviceaccount name" in refusal.value.message) == (400, True)


def test_a_token_ends_at_its_expiry_by_the_callers_clock():
    issued = token(expiration_seconds=600)
    assert isinstance(issuer().verify(issued, [ISSUER], NOW + timedelta(seconds=599)), VerifiedToken)
    assert issuer().verify(issued, [ISSUER], NOW + timedelta(seconds=600)) == "service account token has expired"


def test_a_token_from_the_future_is_refused_beyond_what_clocks_differ():
    issued = token()
    assert isinstance(issuer().verify(issued, [ISSUER], NOW - timedelta(seconds=30)), VerifiedToken)
    assert issuer().verify(issued, [ISSUER], NOW - timedelta(minutes=5)) == "service account token is not valid yet"


def test_a_token_is_good_only_for_whom_it_is_meant():
    issued = token(audiences=["a", "b"])
    verified = issuer().verify(issued, ["z", "b"], NOW)
    assert isinstance(verified, VerifiedToken)
    assert verified.audiences == ("b",)
    assert issuer().verify(issued, [ISSUER], NOW) == (
        f'token audiences ["a" "b"] is invalid for the target audiences ["{ISSUER}"]'
    )
    assert isinstance(issuer().verify(issued, [], NOW), str)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "bad",
        "a.b.c",
        forged({}, pem(ec.generate_private_key(ec.SECP256R1()))),
        forged({}, "hunter2hunter2hunter2hunter2hunter2", "HS256"),
        forged({"iss": "https://elsewhere"}),
        forged({"sub": "system:serviceaccount:kube-system:admin"}),
        forged({"exp": "soon"}),
        forged({"exp": 10**30}),
        forged({"kubernetes.io": {}}),
        forged({"kubernetes.io": []}),
    ],
)
def test_what_we_did_not_make_is_refused_without_a_hint(bad):
    assert issuer().verify(bad, [ISSUER], NOW) == "invalid bearer token"


@pytest.mark.parametrize("made_by_another_process", [True, False])
def test_a_signature_is_checked_once_and_everything_else_each_time(monkeypatch, made_by_another_process):
    verifier = issuer()
    text = (issuer() if made_by_another_process else verifier).issue(ACCOUNTS, ACCOUNT)["status"]["token"]
    first = verifier.verify(text, (), NOW)
    monkeypatch.setattr("paddock.embedded.api.tokens.jwt.decode", lambda *_, **__: pytest.fail("checked again"))
    assert verifier.verify(text, (), NOW) == first
    assert "expired" in str(verifier.verify(text, (), NOW + timedelta(hours=2)))
    assert "audiences" in str(verifier.verify(text, ["another"], NOW))


def test_a_token_that_differs_in_one_letter_from_one_that_is_known_is_checked():
    verifier = issuer()
    text = verifier.issue(ACCOUNTS, ACCOUNT)["status"]["token"]
    assert isinstance(verifier.verify(text, (), NOW), VerifiedToken)
    head, said, signature = text.split(".")
    other = said[:-1] + ("A" if said[-1] != "A" else "B")
    assert verifier.verify(f"{head}.{other}.{signature}", (), NOW) == "invalid bearer token"


def test_an_unsigned_token_is_refused():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = jwt.decode(token(), options={"verify_signature": False})
    assert issuer().verify(f"{part({'alg': 'none'})}.{part(claims)}.", [ISSUER], NOW) == "invalid bearer token"


def test_a_key_that_cannot_sign_is_refused_without_being_shown():
    for key in ("hunter2", pem(ec.generate_private_key(ec.SECP384R1()))):
        with pytest.raises(UnusableKeyError) as refusal:
            TokenIssuer(key, ISSUER, SteppedClock(NOW))
        assert key not in str(refusal.value)
        assert refusal.value.__cause__ is None


def test_neither_keys_nor_tokens_are_ever_shown():
    assert "PRIVATE" not in repr(KEY)
    assert "PRIVATE" not in repr(issuer())
    assert "hunter2" not in repr(StaticTokens(["hunter2"]))


def test_static_tokens_are_known_exactly():
    known = StaticTokens([Secret("first"), "second"])
    assert known.knows("first")
    assert known.knows("second")
    assert not known.knows("firs")
    assert not known.knows("")
    assert not known.knows("\udcff")


def test_an_empty_static_token_would_let_everybody_in():
    with pytest.raises(ValueError, match="everybody"):
        StaticTokens([""])


def test_a_token_review_says_whose_token_it_is_and_for_whom():
    verified = issuer().verify(token(pod=POD), [ISSUER], NOW)
    assert isinstance(verified, VerifiedToken)
    review = token_review({"token": "t", "audiences": [ISSUER]}, user_info(verified), verified.audiences)
    assert review["status"]["authenticated"] is True
    assert review["status"]["audiences"] == [ISSUER]
    assert review["status"]["user"] == {
        "username": "system:serviceaccount:ci:robot",
        "uid": "sa-uid",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/credential-id": [f"JTI={verified.token_id}"],
            "authentication.kubernetes.io/pod-name": ["runner-1"],
            "authentication.kubernetes.io/pod-uid": ["pod-uid"],
        },
    }
    assert review["spec"] == {"token": "t", "audiences": [ISSUER]}, "clients refuse an answer without it"


def test_a_token_review_of_nobodys_token_says_why():
    review = token_review({"token": "t"}, None, error="service account token has expired")
    assert review["status"] == {"user": {}, "error": "service account token has expired"}


def test_a_self_review_repeats_who_asked():
    review = self_subject_review({"username": "admin", "groups": ["system:masters"]}, NOW)
    assert (review["kind"], review["apiVersion"]) == ("SelfSubjectReview", "authentication.k8s.io/v1")
    assert review["status"] == {"userInfo": {"username": "admin", "groups": ["system:masters"]}}


@pytest.mark.parametrize("key", [KEY.reveal(), pem(rsa.generate_private_key(65537, 2048))], ids=["ES256", "RS256"])
def test_the_published_key_verifies_what_was_issued(key):
    made = issuer(key)
    issued = made.issue(ACCOUNTS, ACCOUNT)["status"]["token"]
    (published,) = made.jwks()["keys"]
    assert published["kid"] == jwt.get_unverified_header(issued)["kid"]
    verified = jwt.decode(
        issued,
        jwt.PyJWK(published),
        [published["alg"]],
        audience=ISSUER,
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert verified["sub"] == "system:serviceaccount:ci:robot"
    assert not {"d", "p", "q"} & set(published), "the private part stays where it is"
