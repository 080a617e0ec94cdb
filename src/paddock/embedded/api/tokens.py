"""Who a bearer token speaks for: tokens of ServiceAccounts that we sign, and the static ones of the kubeconfig.

Everything here is pure given the key. Whether what a token is bound to still lives is the caller's to look up: a token
whose ServiceAccount or Pod is gone, or was made anew under another uid, must be refused whatever its expiry says.
"""

import base64
import hashlib
import hmac
import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from paddock.base.clock import Clock, rfc3339
from paddock.base.rng import new_uuid, unseeded
from paddock.base.secrets import Secret
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import ApiFailure, bad_request, invalid
from paddock.embedded.api.validation.causes import invalid as wrong

__all__ = [
    "DEFAULT_SECONDS",
    "SHORTEST_SECONDS",
    "StaticTokens",
    "TokenIssuer",
    "UnusableKeyError",
    "VerifiedToken",
    "generate_key",
    "self_subject_review",
    "token_review",
    "user_info",
]

SHORTEST_SECONDS: Final = 600
DEFAULT_SECONDS: Final = 3600
_LONGEST_SECONDS: Final = 2**32
_CLOCKS_DIFFER: Final = timedelta(seconds=60)
_MOST_REMEMBERED: Final = 20_000

_GROUP = "authentication.k8s.io"
_TOKEN_REQUEST = Kind(_GROUP, "v1", "TokenRequest", "tokenrequests", "tokenrequest", namespaced=True)


class UnusableKeyError(ValueError):
    """The signing key is not a PEM private key of RSA or of the curve P-256: make one with `generate_key()`."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """What a token says that was signed by us, is in force, and is meant for an audience that was asked for."""

    namespace: str
    service_account: str
    service_account_uid: str
    audiences: tuple[str, ...]
    """Those of the asked-for audiences that the token is meant for."""
    expires: datetime
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    node_uid: str = ""
    token_id: str = ""

    @property
    def username(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.service_account}"

    @property
    def groups(self) -> tuple[str, ...]:
        return ("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def generate_key() -> Secret:
    """A new private key for ES256, as PEM text: keep it in a file that only we can read."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Secret(pem.decode())


class TokenIssuer:
    """Signs and verifies tokens of ServiceAccounts with one key; RS256 or ES256, as the key is. Its repr hides the key."""

    def __init__(
        self,
        private_key_pem: Secret | str | bytes,
        issuer: str,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._key = _private_key(private_key_pem)
        self._public = self._key.public_key()
        self._algorithm = "RS256" if isinstance(self._key, rsa.RSAPrivateKey) else "ES256"
        self._clock = clock
        self._rng = rng or unseeded()
        self.issuer = issuer
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
        self._signed: OrderedDict[bytes, None] = OrderedDict()
        """Digests of tokens that are known to be signed by this key: one is shown thousands of times, and to check its
        signature costs more than all the rest. What it says is read anew each time, and so are time and audience."""

    def __repr__(self) -> str:
        return f"TokenIssuer({self.issuer!r}, {self._algorithm}, key {self.key_id})"

    def jwks(self) -> dict[str, Any]:
        """The public key, as `/openid/v1/jwks` publishes it: whoever has it can verify tokens without asking us."""
        public = self._public
        if isinstance(public, rsa.RSAPublicKey):
            key = RSAAlgorithm.to_jwk(public, as_dict=True)
        else:
            key = ECAlgorithm.to_jwk(public, as_dict=True)
        key.pop("key_ops", None)
        return {"keys": [{"use": "sig", "kid": self.key_id, "alg": self._algorithm, **key}]}

    def discovery(self, server: str) -> dict[str, Any]:
        """`/.well-known/openid-configuration`: whose tokens these are, and where their key is."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{server}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self._algorithm],
        }

    def issue(
        self,
        kind: Kind,
        account: dict[str, Any],
        *,
        audiences: Sequence[str] = (),
        expiration_seconds: int | None = None,
        pod: dict[str, Any] | None = None,
        node: dict[str, Any] | None = None,
        bound: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The answered TokenRequest for a ServiceAccount object, bound to the Pod (and its Node) if one is given.

        422 for a lifetime out of bounds, 400 for a Pod that runs under another ServiceAccount. `bound` is the reference
        as the client sent it, to be shown again.
        """
        assert kind.kind == "ServiceAccount"
        seconds = DEFAULT_SECONDS if expiration_seconds is None else expiration_seconds
        _check_lifetime(seconds)
        meta, now = account["metadata"], self._clock.now()
        audiences = list(audiences) or [self.issuer]
        facts: dict[str, Any] = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        if pod is not None:
            facts["pod"] = _bound_pod(pod, meta["name"])
            if node is not None:
                facts["node"] = {"name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
        issued = int(now.timestamp())
        claims = {
            "aud": audiences,
            "exp": issued + seconds,
            "iat": issued,
            "nbf": issued,
            "iss": self.issuer,
            "jti": new_uuid(self._rng),
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
            "kubernetes.io": facts,
        }
        token = jwt.encode(claims, self._key, self._algorithm, headers={"kid": self.key_id, "typ": None})
        self._remember(_digest(token))
        if bound is None and pod is not None:
            bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        return {
            "kind": "TokenRequest",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "creationTimestamp": rfc3339(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": rfc3339(now + timedelta(seconds=seconds))},
        }

    def verify(self, token: str, audiences: Sequence[str], now: datetime) -> VerifiedToken | str:
        """What the token says, or the reason why it is not accepted. The caller still checks what it is bound to."""
        try:
            return self._read(self._claims(token), audiences, now)
        except Exception:  # noqa: BLE001 - a made-up token is refused, whatever it makes of a library
            # Whatever is wrong with it, the holder learns only that it is not one of ours.
            return "invalid bearer token"

    def _claims(self, token: str) -> dict[str, Any]:
        digest = _digest(token)
        if digest in self._signed:
            return msgspec.json.decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        claims = jwt.decode(
            token,
            self._public,
            [self._algorithm],
            # Times are compared by `_read`, with the injected clock; the audience too, for several may be asked for.
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False},
            issuer=self.issuer,
        )
        self._remember(digest)
        return claims

    def _remember(self, digest: bytes) -> None:
        self._signed[digest] = None
        if len(self._signed) > _MOST_REMEMBERED:
            self._signed.popitem(last=False)

    def _read(self, claims: dict[str, Any], audiences: Sequence[str], now: datetime) -> VerifiedToken | str:
        meant = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        expires = datetime.fromtimestamp(claims["exp"], UTC)
        if now >= expires:
            return "service account token has expired"
        if now + _CLOCKS_DIFFER < datetime.fromtimestamp(claims["nbf"], UTC):
            return "service account token is not valid yet"
        asked = tuple(audiences) or (self.issuer,)
        common = tuple(audience for audience in asked if audience in meant)
        if not common:
            return f"token audiences {_listed(meant)} is invalid for the target audiences {_listed(asked)}"
        facts = claims["kubernetes.io"]
        account, pod, node = facts["serviceaccount"], facts.get("pod") or {}, facts.get("node") or {}
        verified = VerifiedToken(
            namespace=facts["namespace"],
            service_account=account["name"],
            service_account_uid=account["uid"],
            audiences=common,
            expires=expires,
            pod=pod.get("name", ""),
            pod_uid=pod.get("uid", ""),
            node=node.get("name", ""),
            node_uid=node.get("uid", ""),
            token_id=claims.get("jti", ""),
        )
        # The subject is what other systems read; one that disagrees with the rest was not made by `issue`.
        return verified if claims["sub"] == verified.username else "invalid bearer token"


def _private_key(pem: Secret | str | bytes) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    text = pem.reveal() if isinstance(pem, Secret) else pem
    try:
        key = serialization.load_pem_private_key(text.encode() if isinstance(text, str) else text, password=None)
    except (ValueError, TypeError):
        # The cause may quote parts of the key, so it is not chained.
        raise UnusableKeyError("the signing key cannot be read as a PEM private key") from None
    if isinstance(key, rsa.RSAPrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise UnusableKeyError("the signing key is neither RSA nor on the curve P-256")


def _check_lifetime(seconds: int) -> None:
    field = "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        cause = wrong(field, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _LONGEST_SECONDS:
        cause = wrong(field, seconds, "may not specify a duration larger than 2^32 seconds")
    else:
        return
    refusal = invalid(_TOKEN_REQUEST, "", [cause])
    refusal.details.pop("name", None)
    raise refusal


def _bound_pod(pod: dict[str, Any], account: str) -> dict[str, str]:
    if (pod.get("spec") or {}).get("serviceAccountName", "default") != account:
        raise _other_account(account)
    return {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def _other_account(account: str) -> ApiFailure:
    return bad_request(
        f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
    )


def _listed(audiences: Iterable[str]) -> str:
    return "[" + " ".join(f'"{audience}"' for audience in audiences) + "]"


class StaticTokens:
    """Tokens that were handed out beforehand, such as the administrator's in the kubeconfig. Its repr hides them."""

    def __init__(self, tokens: Iterable[Secret | str]) -> None:
        texts = [token.reveal() if isinstance(token, Secret) else token for token in tokens]
        if not all(texts):
            raise ValueError("a static token is empty, and would let everybody in")
        self._digests = tuple(hashlib.sha256(text.encode()).digest() for text in texts)

    def __repr__(self) -> str:
        return f"StaticTokens({len(self._digests)})"

    def knows(self, token: str) -> bool:
        """Whether it is one of them; every one is compared in constant time, so the answer's time tells nothing."""
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found


def user_info(token: VerifiedToken) -> dict[str, Any]:
    """The holder of a token as TokenReview and SelfSubjectReview show it."""
    extra: dict[str, list[str]] = {}
    for name, value in (
        ("credential-id", f"JTI={token.token_id}" if token.token_id else ""),
        ("node-name", token.node),
        ("node-uid", token.node_uid),
        ("pod-name", token.pod),
        ("pod-uid", token.pod_uid),
    ):
        if value:
            extra[f"authentication.kubernetes.io/{name}"] = [value]
    return {
        "username": token.username,
        "uid": token.service_account_uid,
        "groups": list(token.groups),
        **({"extra": extra} if extra else {}),
    }


def token_review(
    spec: dict[str, Any], user: dict[str, Any] | None, audiences: Sequence[str] = (), error: str = ""
) -> dict[str, Any]:
    """The answered TokenReview: whose token it is, or why it is no user's. The spec is repeated, as clients expect it."""
    if user is not None:
        status: dict[str, Any] = {"authenticated": True, "user": user, "audiences": list(audiences)}
    else:
        status = {"user": {}, "error": error or "invalid bearer token"}
    return {"kind": "TokenReview", "apiVersion": f"{_GROUP}/v1", "metadata": {}, "spec": dict(spec), "status": status}


def self_subject_review(user: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The answered SelfSubjectReview: who is asking."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {"creationTimestamp": rfc3339(now)},
        "status": {"userInfo": user},
    }
