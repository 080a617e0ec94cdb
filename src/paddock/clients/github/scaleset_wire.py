"""GitHub's answers about scale sets as they come, and what a refusal means. Bodies may begin with a byte order mark."""

import base64
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from paddock.base.secrets import Secret
from paddock.clients.github.errors import (
    Conflict,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from paddock.clients.github.refusals import WITHOUT_ADVICE
from paddock.clients.github.scaleset import QueueMessage, QueueSession, ScaleSet, ScaleSetStatistics

__all__ = [
    "AcquiredJobs",
    "AdminConnection",
    "GroupList",
    "MintedAnswer",
    "RegistrationToken",
    "WireScaleSet",
    "WireScaleSets",
    "WireSession",
    "decoded",
    "expiry_of",
    "message_of",
    "scale_set_of",
    "scale_set_refusal",
    "session_of",
]

T = TypeVar("T")
_BOM = b"\xef\xbb\xbf"
_NOT_FOUND = ("NotFoundException", "SessionExpiredException")
_CONFLICT = ("ExistsException", "ConflictException", "StillRunningException")


class RegistrationToken(Struct):
    token: Secret


class AdminConnection(Struct):
    url: str
    token: Secret


class WireGroup(Struct):
    id: int
    name: str = ""


class GroupList(Struct):
    value: list[WireGroup] = []


class WireLabel(Struct):
    name: str


class WireScaleSet(Struct, rename="camel"):
    id: int
    name: str = ""
    runner_group_id: int = 0
    labels: list[WireLabel] = []
    statistics: ScaleSetStatistics | None = None


class WireScaleSets(Struct):
    value: list[WireScaleSet] = []


class WireSession(Struct, rename="camel"):
    """Nothing but its id is relied on: an answer that is refused as a whole would leave a session that nobody can close."""

    session_id: str
    message_queue_url: str | None = None
    message_queue_access_token: Secret | None = None
    statistics: msgspec.Raw = msgspec.Raw(b"null")


class WireMessage(Struct, rename="camel"):
    message_id: int
    message_type: str = ""
    body: str = ""
    statistics: msgspec.Raw = msgspec.Raw(b"null")


class _Numbered(Struct, rename="camel"):
    message_id: int


class AcquiredJobs(Struct):
    value: list[int] = []


class WireRunner(Struct):
    id: int
    name: str = ""


class MintedAnswer(Struct):
    runner: WireRunner
    config: Secret = field(name="encodedJITConfig")


class _Said(Struct, rename="camel"):
    message: str = ""
    type_name: str = ""


def decoded(where: str, status: int, body: bytes, shape: type[T], *, mutation: bool) -> T:
    """The JSON as the given type; an answer of another shape is not GitHub's, so it counts as unavailable."""
    try:
        return msgspec.json.decode(body.removeprefix(_BOM), type=shape, dec_hook=_secret)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
    raise Unavailable(f"{where}: the answer cannot be used: {reason}", status=status, effect_unknown=mutation)


def session_of(wire: WireSession) -> QueueSession | None:
    """The session; None where it has no queue, as seen in an outage."""
    token = wire.message_queue_access_token
    if not wire.message_queue_url or token is None or not token.reveal():
        return None
    return QueueSession(
        session_id=wire.session_id,
        url=wire.message_queue_url,
        token=token,
        statistics=_statistics(wire.statistics) or ScaleSetStatistics(),
    )


def message_of(where: str, status: int, body: bytes, known: ScaleSetStatistics) -> QueueMessage:
    """The message. One that has a number is never unavailable, because it would come again for ever and hide all behind it: where
    the rest of it is odd, its body is all that came, and `known` stands for statistics that cannot be read.
    """
    try:
        wire = decoded(where, status, body, WireMessage, mutation=False)
    except Unavailable:
        number = decoded(where, status, body, _Numbered, mutation=False).message_id
        return QueueMessage(message_id=number, body=body.removeprefix(_BOM), statistics=known)
    counts = _statistics(wire.statistics) or known
    return QueueMessage(message_id=wire.message_id, body=wire.body.encode(), kind=wire.message_type, statistics=counts)


def _statistics(raw: msgspec.Raw) -> ScaleSetStatistics | None:
    try:
        return msgspec.json.decode(raw, type=ScaleSetStatistics | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def scale_set_of(wire: WireScaleSet) -> ScaleSet:
    return ScaleSet(
        scale_set_id=wire.id,
        name=wire.name,
        group_id=wire.runner_group_id,
        labels=tuple(label.name for label in wire.labels),
        statistics=wire.statistics or ScaleSetStatistics(),
    )


def scale_set_refusal(
    where: str, status: int, body: bytes, *, retry_after: float | None, mutation: bool, hidden: str = ""
) -> GitHubError:
    """The error behind an answer that is no success. GitHub names it by `typeName`; a status alone may be a proxy's.

    A 403 that says when to come again is a limit, as everywhere at GitHub. `hidden` never shows, should GitHub have echoed it.
    """
    said = _said(body)
    text = f"{where}: {(said.message if said else '') or f'HTTP {status}'}"
    text = (text.replace(hidden, "***") if hidden else text)[: len(where) + 202]
    if status == 429 or (status == 403 and retry_after is not None):
        return RateLimited(text, status=status, retry_after=WITHOUT_ADVICE if retry_after is None else retry_after)
    if status >= 500 or status == 408:
        return Unavailable(text, status=status, effect_unknown=mutation)
    if status == 401:
        return Unauthenticated(text, status=status)
    if said is None:
        return Unavailable(f"{text} (not GitHub's own answer)", status=status, effect_unknown=mutation)
    kind = said.type_name.partition(",")[0]  # .NET adds the assembly
    if kind.endswith(_NOT_FOUND) or status in (404, 410):
        return NotFound(text, status=status)
    if kind.endswith(_CONFLICT) or status == 409:
        return Conflict(text, status=status)
    kinds: dict[int, type[GitHubError]] = {400: Invalid, 403: Forbidden, 405: Invalid, 422: Invalid}
    return kinds.get(status, GitHubError)(text, status=status)


def expiry_of(token: Secret) -> float | None:
    """When a JWT ends, in seconds since 1970, by its own unverified word; None where it does not say."""
    try:
        payload = token.reveal().split(".")[1]
        claims: Any = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError):
        return None


def _said(body: bytes) -> _Said | None:
    try:
        return msgspec.json.decode(body.removeprefix(_BOM), type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _secret(kind: type, value: Any) -> Secret:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("expected a text")
