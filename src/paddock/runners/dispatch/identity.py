"""Who a Pod is, from its projected ServiceAccount token. The request itself names no Pod.

Accepted is a token that the cluster signed, for our audience, not expired, of our namespace, of the ServiceAccount that
has the Pod's own name, bound to a Pod of that name and uid that is there and not being deleted; the pool is the label of
the ServiceAccount, which only the operator can write. While a Pod waits this costs no call (`waiting`); at the moment of
a claim the API server is asked (`confirm`), because only it knows that a token was revoked.
"""

import asyncio
import base64
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import jwt
import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.kube.builtin import TokenReview
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.runners.api import POOL_LABEL
from paddock.runners.dispatch.cluster import KeySource, KeysUnavailableError, Observations, VerifyingKey
from paddock.runners.dispatch.review_limits import ReviewLimits, TooManyReviewsError

__all__ = ["IdentityError", "NotAllowed", "PodIdentity", "Principal", "Tokens", "Unauthenticated", "Unreachable"]

_LONGEST: Final = 16 * 1024
_REMEMBERED: Final = 60.0
_MOST_REMEMBERED: Final = 20_000
_CLOCKS_DIFFER: Final = 60.0
_REVIEW_TIMEOUT: Final = 5.0
_TOO_MANY: Final = "too many tokens are asked about at once: ask again in a few seconds"
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
log = get_logger("dispatch")


class IdentityError(Exception):
    """Who asks is not known well enough to be answered. Each class is one status; the text never holds a token."""

    status = 401
    outcome = "unauthenticated"


class Unauthenticated(IdentityError):  # noqa: N818 - the word of the answer
    """No token, or none that counts: expired, not signed by the cluster, for another audience. The Pod exits."""


class NotAllowed(IdentityError):  # noqa: N818 - the word of the answer
    """A good token of a holder who may not wait here: another namespace, a Pod that is gone, no pool. The Pod exits."""

    status = 403
    outcome = "not_allowed"


class Unreachable(IdentityError):  # noqa: N818 - the word of the answer
    """The cluster cannot be asked at the moment, so nothing is known. The Pod asks again."""

    status = 503
    outcome = "unreachable"


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """A Pod that proved who it is, and the pool that it waits for."""

    namespace: str
    name: str
    uid: str
    pool: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom the API server takes the holder of a token for. The Pod is empty where the token is bound to none."""

    username: str
    pod_name: str = ""
    pod_uid: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a token says about its holder, once it was verified."""

    namespace: str
    account: str
    account_uid: str
    pod: str
    pod_uid: str


class _Head(msgspec.Struct, frozen=True):
    kid: str = ""


class _Account(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Pod(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Holder(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: _Account
    pod: _Pod | None = None


class _Claims(msgspec.Struct, frozen=True):
    """What a token claims, before anybody vouched for it: each of the type that those who read it expect."""

    sub: str
    aud: list[str] | str
    exp: float
    holder: _Holder = msgspec.field(name="kubernetes.io")
    nbf: float | None = None

    @property
    def said(self) -> _Said:
        account, pod = self.holder.serviceaccount, self.holder.pod or _Pod()
        return _Said(self.holder.namespace, account.name, account.uid, pod.name, pod.uid)


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_claims: Final = msgspec.json.Decoder(_Claims).decode


class Tokens:
    """Verifies tokens. Every refusal is an IdentityError that says which answer it deserves, and never holds a token."""

    def __init__(
        self,
        client: Client,
        observations: Observations,
        keys: KeySource,
        *,
        audience: str,
        clock: Clock,
        limits: ReviewLimits | None = None,
    ) -> None:
        self._client = client
        self._observations = observations
        self._keys = keys
        self._audience = audience
        self._clock = clock
        self._limits = limits or ReviewLimits(clock)
        self._known: OrderedDict[bytes, tuple[_Said, float, str]] = OrderedDict()
        """By the token's digest: what it says, until when that counts, and the key whose signature was found good; without
        one the API server vouched for it. Those that were not shown for longest come first: they make room."""
        self._reviews: dict[bytes, asyncio.Task[_Said]] = {}

    async def waiting(self, token: Secret) -> PodIdentity:
        """Who wants to wait. Without a call as long as the cluster's keys and the watches are there.

        Unauthenticated, NotAllowed or Unreachable otherwise.
        """
        return await self._identify(await self._verified(_plausible(token)))

    def lasts(self, token: Secret) -> float:
        """For how many seconds it is known to be good from now on; without end where nothing was kept of it."""
        known = self._known.get(_digest(token.reveal()))
        return float("inf") if known is None else max(0.0, known[1] - self._clock.monotonic())

    async def confirm(self, pod: PodIdentity, token: Secret) -> None:
        """Ask the API server whether the token still speaks for this very Pod; never answered from memory."""
        said = _bound(await self._asked(token.reveal(), self._audience))
        if (said.namespace, said.pod, said.pod_uid, said.account) != (pod.namespace, pod.name, pod.uid, pod.name):
            raise NotAllowed("the token does not speak for this Pod any more")
        seen = self._observations.from_cache(pod.name, pod.uid)
        if seen is not None and seen.metadata.deletion_timestamp is not None:
            # The API server goes on accepting the token of a Pod that is being deleted for a while; we do not.
            raise NotAllowed("the Pod is being deleted")

    async def principal(self, token: Secret, audience: str) -> Principal:
        """Whose token for `audience` this is, by TokenReview. One that does not even claim to be good costs no call, one that
        the cluster's keys did not sign costs none either, and what is left has a limit.
        """
        text = _plausible(token)
        claims, key_id = self._claims(text, audience)
        stranger = await self._allowed(text, claims, key_id)
        return await self._asked(text, audience, stranger=stranger)

    async def _allowed(self, text: str, claims: _Claims, key_id: str) -> bool:
        """Raises where this token may not cost the cluster a question; gives whether it is a stranger's, for whom no key
        speaks. Cheap: a signature is checked here, with keys that are kept.
        """
        try:
            key = await self._keys.of(key_id)
        except KeysUnavailableError:
            key = None
        if key is not None and not self._signed(text, key_id):
            self._check_signature(text, key)
        try:
            if key is None:
                self._limits.stranger()
            else:
                self._limits.holder(claims.sub, claims.said.pod_uid)
        except TooManyReviewsError:
            raise Unreachable(_TOO_MANY) from None
        return key is None

    async def _asked(self, text: str, audience: str, *, stranger: bool = False) -> Principal:
        review = TokenReview(
            api_version="authentication.k8s.io/v1",
            kind="TokenReview",
            spec=TokenReview.Spec(token=text, audiences=(audience,)),
        )
        self._limits.asked(stranger=stranger)
        try:
            status = (await self._client.create(review, timeout=_REVIEW_TIMEOUT)).status
        except KubeError as error:
            # The class alone: a server that quotes the request in its refusal would quote the token.
            log.warning("a token could not be reviewed", error=type(error).__name__)
            raise Unreachable("the cluster cannot be asked about the token") from None
        if status.error or not status.authenticated or status.user is None or not status.user.username:
            raise Unauthenticated("the cluster does not accept the token")
        if audience not in status.audiences:
            # A server that knows no audiences answers without any, and would let every token in.
            raise _meant_for_others(audience)
        extra = status.user.extra
        return Principal(
            status.user.username,
            pod_name=next(iter(extra.get(_POD_NAME, ())), ""),
            pod_uid=next(iter(extra.get(_POD_UID, ())), ""),
            uid=status.user.uid,
        )

    # How a token is read

    async def _verified(self, text: str) -> _Said:
        # A Pod that waits shows the same token again and again: a signature that was good is good for as long as the
        # token lasts and the cluster publishes its key. That it still speaks for the Pod is asked anew at the moment of a claim.
        digest = _digest(text)
        if (known := await self._recalled(digest)) is not None:
            return known
        claims, key_id = self._claims(text, self._audience)
        try:
            key = await self._keys.of(key_id)
        except KeysUnavailableError:
            return await self._reviewed_once(digest, text, claims)
        if key is None:
            # Perhaps a key that is newer than our last look. Anybody can make such a token up, so the cluster is asked
            # only about one that at least names a Pod that is there.
            said = claims.said
            if (
                said.namespace != self._observations.namespace
                or self._observations.from_cache(said.pod, said.pod_uid) is None
            ):
                raise Unauthenticated("the token is not signed by the cluster")
            return await self._reviewed_once(digest, text, claims)
        self._check_signature(text, key)
        said = claims.said
        self._remember(digest, said, claims, key_id)
        return said

    def _check_signature(self, text: str, key: VerifyingKey) -> None:
        try:
            # The signature alone. The issuer is not compared: these keys sign nothing but tokens of this cluster's ServiceAccounts,
            # and a cluster may have several issuers. Times and audience were, in `_claims`, with our own clock.
            jwt.PyJWS().decode(text, key.key, [key.algorithm])
        except Exception:  # noqa: BLE001 - whatever a made-up token makes of a library, it is refused, and counted as refused
            raise Unauthenticated("the token is not signed by the cluster") from None

    def _claims(self, text: str, audience: str) -> tuple[_Claims, str]:
        """What the token claims, before anybody vouched for it: one that does not even claim to be good costs nothing."""
        try:
            head, payload, _ = text.split(".")
            key_id, claims = _read_head(_decoded(head)).kid, _read_claims(_decoded(payload))
        except (ValueError, RecursionError):
            raise Unauthenticated("the token is none of a ServiceAccount") from None
        if claims.sub != f"system:serviceaccount:{claims.said.namespace}:{claims.said.account}":
            raise Unauthenticated("the token is none of a ServiceAccount")
        now = self._clock.now().timestamp()
        if not now < claims.exp:
            raise Unauthenticated("the token has expired: read it again from its file before every request")
        if (claims.nbf or 0.0) > now + _CLOCKS_DIFFER:
            raise Unauthenticated("the token is not valid yet")
        if audience not in ([claims.aud] if isinstance(claims.aud, str) else claims.aud):
            raise _meant_for_others(audience)
        return claims, key_id

    async def _reviewed_once(self, digest: bytes, text: str, claims: _Claims) -> _Said:
        """The API server's word; many who ask about one token at once share one question. A refusal is never remembered."""
        review = self._reviews.get(digest)
        if review is None:
            review = self._reviews[digest] = asyncio.ensure_future(self._review(text))
            review.add_done_callback(lambda done: self._reviewed_now(digest, claims, done))
        # One that stops waiting must not take the answer from the others.
        return await asyncio.shield(review)

    async def _review(self, text: str) -> _Said:
        # Nobody vouched for this one yet: the keys are not known, or not the newest.
        try:
            self._limits.stranger()
        except TooManyReviewsError:
            raise Unreachable(_TOO_MANY) from None
        return _bound(await self._asked(text, self._audience, stranger=True))

    def _reviewed_now(self, digest: bytes, claims: _Claims, review: "asyncio.Task[_Said]") -> None:
        self._reviews.pop(digest, None)
        if not review.cancelled() and review.exception() is None:
            self._remember(digest, review.result(), claims)

    async def _recalled(self, digest: bytes) -> _Said | None:
        said, until, key_id = self._known.get(digest, (None, 0.0, ""))
        if said is None or self._clock.monotonic() >= until:
            return None
        self._known.move_to_end(digest)
        if key_id:
            try:
                if await self._keys.of(key_id) is None:
                    return None  # the cluster has withdrawn the key
            except KeysUnavailableError:
                return None
        return said

    def _signed(self, text: str, key_id: str) -> bool:
        """Whether this very token's signature by this key was found good before."""
        return self._known.get(_digest(text), (None, 0.0, ""))[2] == key_id != ""

    def _remember(self, digest: bytes, said: _Said, claims: _Claims, key_id: str = "") -> None:
        """To the token's end if its signature was checked; what the API server said, for a minute at most."""
        now = self._clock.monotonic()
        left = claims.exp - self._clock.now().timestamp()
        self._known[digest] = (said, now + (left if key_id else min(_REMEMBERED, left)), key_id)
        self._known.move_to_end(digest)
        # Each Pod has a new token every few minutes, and the old ones are good for hours: the memory is always full of those.
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)

    # Whom it speaks for

    async def _identify(self, said: _Said) -> PodIdentity:
        if said.namespace != self._observations.namespace:
            raise NotAllowed("the token is of another namespace")
        if not said.pod or not said.pod_uid:
            raise NotAllowed("the token is bound to no Pod: it must come from the Pod's own projected volume")
        if said.account != said.pod:
            raise NotAllowed("the token's ServiceAccount is not the one of its Pod")
        await self._pod_of(said)
        try:
            account = await self._observations.account(said.account, said.account_uid)
        except KubeError as error:
            raise _unreachable(error) from None
        if account is None:
            raise NotAllowed("the token's ServiceAccount is gone")
        pool = account.metadata.labels.get(POOL_LABEL, "")
        if not pool:
            raise NotAllowed(f"the ServiceAccount has no label {POOL_LABEL}")
        return PodIdentity(said.namespace, said.pod, said.pod_uid, pool)

    async def _pod_of(self, said: _Said) -> None:
        try:
            pod = await self._observations.pod(said.pod, said.pod_uid) if said.pod else None
        except KubeError as error:
            raise _unreachable(error) from None
        if pod is None or pod.metadata.deletion_timestamp is not None:
            raise NotAllowed("the token's Pod is gone")


def _meant_for_others(audience: str) -> Unauthenticated:
    return Unauthenticated(f"the token is not meant for us: ask for one with the audience {audience}")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _plausible(token: Secret) -> str:
    text = token.reveal()
    if not text or len(text) > _LONGEST or not text.isascii():
        raise Unauthenticated("the token is missing or is none")
    return text


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _bound(principal: Principal) -> _Said:
    match principal.username.split(":"):
        case ["system", "serviceaccount", namespace, account]:
            return _Said(namespace, account, principal.uid, principal.pod_name, principal.pod_uid)
        case _:
            raise Unauthenticated("the token is none of a ServiceAccount")


def _unreachable(error: KubeError) -> Unreachable:
    log.warning("a Pod or its ServiceAccount could not be read", error=str(error))
    return Unreachable("the cluster cannot be asked about the Pod")
