"""Who may act: a person who showed the action token once, in this browser, from our own page.

The session is a signed cookie, so that any number of processes that share the token recognise each other's sessions and
nothing is kept. It is HttpOnly and SameSite=Strict; a form moreover carries a token made from the cookie, and its Origin
must be ours. The token itself is never put into a page, a log or a cookie.

In simulation there is nothing real to break and the server listens on loopback only, so the door is open: a session is
given to whoever asks, under the name "somebody at this machine". Forms need their token and Origin there just the same.
"""

import base64
import binascii
import hashlib
import hmac
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from paddock.base.clock import Clock
from paddock.base.secrets import Secret

__all__ = ["COOKIE", "SessionAuthentication", "Visitor"]

COOKIE: Final = "paddock-session"
_LASTS: Final = timedelta(hours=12)
_LONGEST_NAME: Final = 60
_ANYBODY: Final = "somebody at this machine"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person with a session. `form_token` goes into every form that acts."""

    who: str
    cookie: str
    form_token: str


class SessionAuthentication:
    """Without a token nobody may act, and every page is for reading. `open_house` is for simulations alone."""

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
        return self._new(" ".join(who.split())[:_LONGEST_NAME] or "somebody")

    def visitor(self, request: Request) -> Visitor | None:
        """The session that the request carries, if it is ours and not too old."""
        cookie = request.cookies.get(COOKIE, "")
        body, _, signature = cookie.rpartition(".")
        if self._token is None or not body or not hmac.compare_digest(signature, self._sign("session", body)):
            return None
        try:
            born, _, who = base64.urlsafe_b64decode(body).decode().split("\n", 2)
            age = self._clock.now() - datetime.fromisoformat(born)
        except (ValueError, binascii.Error):
            return None
        if not timedelta(0) <= age <= _LASTS:
            return None
        return Visitor(who, cookie, self._sign("form", cookie))

    def welcome(self, request: Request) -> Visitor | None:
        """The visitor, or a new one where the house is open. Put the session on the answer with `remember`."""
        return self.visitor(request) or (self._new(_ANYBODY) if self.open_house else None)

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
        if not hmac.compare_digest(form_token, visitor.form_token):
            return "the form is not from this session: load the page again"
        return None

    def _new(self, who: str) -> Visitor:
        nonce = f"{self._rng.getrandbits(128):032x}"
        body = base64.urlsafe_b64encode(f"{self._clock.now().isoformat()}\n{nonce}\n{who}".encode()).decode()
        cookie = f"{body}.{self._sign('session', body)}"
        return Visitor(who, cookie, self._sign("form", cookie))

    def _sign(self, purpose: str, text: str) -> str:
        assert self._token is not None
        return hmac.new(self._token.reveal().encode(), f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()
