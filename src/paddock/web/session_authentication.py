"""Who may act: a person who showed the action token once, in this browser, from our own page.

The session is a signed cookie, so that any number of processes that share the token recognise each other's sessions and
nothing is kept. It is HttpOnly and SameSite=Strict; a form moreover carries a token made from the cookie, and its Origin
must be ours. The token itself is never put into a page, a log or a cookie.

In simulation there is nothing real to break and the server listens on loopback only, so no sign-in is needed: a session is
given to whoever asks, under the name "a person at this machine". Forms need their token and Origin there just the same.
"""

import hashlib
import hmac
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from itsdangerous import BadData, Signer, TimestampSigner, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from paddock.base.clock import Clock
from paddock.base.secrets import Secret

__all__ = ["COOKIE", "SessionAuthentication", "Visitor"]

COOKIE: Final = "paddock-session"
_LASTS: Final = timedelta(hours=12)
_LONGEST_NAME: Final = 60
_ANYBODY: Final = "a person at this machine"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person with a session. `form_token` goes into every form that acts."""

    who: str
    cookie: str
    form_token: str


class _ClockSigner(TimestampSigner):
    """Takes the time from the injected clock."""

    def __init__(self, *args: Any, clock: Clock, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock = clock

    def get_timestamp(self) -> int:
        return int(self._clock.now().timestamp())


class SessionAuthentication:
    """Without a token no person may act, and every page is for reading. `open_house` is for simulations alone."""

    def __init__(self, token: Secret | None, clock: Clock, rng: random.Random, *, open_house: bool = False) -> None:
        self._token = token
        self._clock = clock
        self._rng = rng
        self.open_house = open_house and token is not None

    @property
    def allows(self) -> bool:
        return self._token is not None

    def admit(self, token: str, who: str) -> Visitor | None:
        """A new session for whoever shows the token; None where it is not the token."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.reveal().encode()):
            return None
        return self._new(self._token, " ".join(who.split())[:_LONGEST_NAME] or "a person without a name")

    def visitor(self, request: Request) -> Visitor | None:
        """The session that the request carries, if it is ours and not too old."""
        cookie = request.cookies.get(COOKIE, "")
        if self._token is None:
            return None
        try:
            _, who = self._sessions(self._token).loads(cookie, max_age=int(_LASTS.total_seconds()))
        except BadData:
            return None
        return Visitor(who, cookie, self._form_token(self._token, cookie))

    def welcome(self, request: Request) -> Visitor | None:
        """The visitor, or a new one where no sign-in is needed. Put the session on the answer with `remember`."""
        if (visitor := self.visitor(request)) is not None or not self.open_house or self._token is None:
            return visitor
        return self._new(self._token, _ANYBODY)

    def remember(self, response: Response, visitor: Visitor, request: Request) -> Response:
        """Give the session to the browser, if it does not have it yet."""
        if request.cookies.get(COOKIE) != visitor.cookie:
            response.set_cookie(
                COOKIE,
                visitor.cookie,
                max_age=int(_LASTS.total_seconds()),
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
                path="/",
            )
        return response

    def refuses(self, request: Request, visitor: Visitor | None, form_token: str) -> str | None:
        """Why a form is not accepted, or None where it is from this person and from our own page."""
        if visitor is None:
            return "there is no session in this browser, or it is over: sign in again"
        origin = request.headers.get("origin", "")
        # Browsers send Origin with every POST; one that is not ours, or none at all, is no form of ours.
        if urlsplit(origin).netloc != request.headers.get("host", "") or not origin:
            return "the form does not come from this page"
        # As bytes: text outside of ASCII is a wrong token, not a mistake of ours.
        if not hmac.compare_digest(form_token.encode(), visitor.form_token.encode()):
            return "the form is not from this session: load the page again"
        return None

    def _new(self, token: Secret, who: str) -> Visitor:
        # The number makes two sessions of one person differ, and so their form tokens.
        cookie = self._sessions(token).dumps((f"{self._rng.getrandbits(128):032x}", who))
        assert isinstance(cookie, str)
        return Visitor(who, cookie, self._form_token(token, cookie))

    def _sessions(self, token: Secret) -> URLSafeTimedSerializer:
        """Signs and reads cookies; the age is judged by our clock, a session from the future is refused."""
        return URLSafeTimedSerializer(
            token.reveal(),
            salt="paddock.session",
            signer=_ClockSigner,
            signer_kwargs={"clock": self._clock, "digest_method": hashlib.sha256},
        )

    @staticmethod
    def _form_token(token: Secret, cookie: str) -> str:
        return Signer(token.reveal(), salt="paddock.form", digest_method=hashlib.sha256).get_signature(cookie).decode()
