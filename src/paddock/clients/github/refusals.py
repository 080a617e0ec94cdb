"""What an answer that is no success means.

GitHub says "too many" in four shapes: 429, or 403 with Retry-After, or 403 with nothing remaining, or 403 whose text
speaks of a rate limit. A refusal counts as GitHub's only with GitHub's JSON: a proxy's 404 proves nothing about a job.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from paddock.base.backoff import LONGEST_ADVICE, http_date, retry_after
from paddock.base.readable import shown
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

__all__ = ["WITHOUT_ADVICE", "advice", "refusal", "server_time", "until_reset"]

WITHOUT_ADVICE = 60.0
"""How long GitHub wants to be left alone when it does not say."""

_BY_STATUS: dict[int, type[GitHubError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    422: Invalid,
}


class _Message(msgspec.Struct):
    message: str
    documentation_url: str | None = None


def refusal(
    where: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    mutation: bool,
    hidden: Iterable[Secret] = (),
) -> GitHubError:
    """The error behind an answer. `hidden` never shows, should whoever answered have echoed it."""
    said = _said(body)
    text = f"{where}: {_shown(said.message if said else _plain(body), hidden)}"
    if _is_limit(status, headers, said):
        wait = advice(headers, now)
        if wait is None and headers.get("x-ratelimit-remaining") == "0":
            wait = until_reset(headers, now)
        return RateLimited(text, status=status, retry_after=max(1.0, WITHOUT_ADVICE if wait is None else wait))
    if status >= 500 or status == 408:
        return Unavailable(text, status=status, effect_unknown=mutation)
    if said is None or status < 400:
        return Unavailable(f"{text} (not GitHub's own answer)", status=status, effect_unknown=mutation)
    return _BY_STATUS.get(status, GitHubError)(text, status=status)


def advice(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait by Retry-After, a number or a date; None where there is none that can be read."""
    return retry_after(headers.get("retry-after"), server_time(headers, now))


def until_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until the limit is full again, by GitHub's own clock where the answer shows it."""
    text = headers.get("x-ratelimit-reset", "").strip()
    if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,9})?", text):
        return None
    return min(max(0.0, float(text) - server_time(headers, now).timestamp()), LONGEST_ADVICE)


def server_time(headers: Mapping[str, str], now: datetime) -> datetime:
    """The time at GitHub, so that a clock of ours that is wrong makes no wait longer or shorter."""
    return http_date(headers.get("date", "")) or now


def _is_limit(status: int, headers: Mapping[str, str], said: _Message | None) -> bool:
    if status != 403:
        return status == 429
    if "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0":
        return True
    text = f"{said.message} {said.documentation_url or ''}".lower() if said else ""
    return "rate limit" in text or "rate-limit" in text


def _said(body: bytes) -> _Message | None:
    try:
        return msgspec.json.decode(body, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _plain(body: bytes) -> str:
    """A short, readable piece of an answer that is not the API's."""
    text = re.sub(r"<[^>]*>", " ", body[:2000].decode("utf-8", "replace"))
    return " ".join(text.split()) or "an empty answer"


def _shown(text: str, hidden: Iterable[Secret]) -> str:
    # The sentence is kept beside jobs: a proxy's page in UTF-16 is full of zero characters, which no text of Postgres may hold.
    text = shown(text)
    for secret in hidden:
        if secret.reveal():
            text = text.replace(secret.reveal(), "***")
    return text if len(text) <= 300 else f"{text[:300]}…"
