"""Why the operator and dispatch cannot speak, in one sentence with the remedy. Pure."""

import ssl
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from paddock.runners.api import OPERATOR_AUDIENCE

__all__ = ["refused_token", "tls_problem"]

_EXPIRED, _NOT_YET, _HOST, _SELF_SIGNED = 10, 9, 62, frozenset({18, 19, 20, 21})
_SKEW: Final = 30.0
_WHERE: Final = "see `kubectl get secrets -l app.kubernetes.io/managed-by=paddock` and the operator's log"


def tls_problem(error: BaseException) -> str:
    """What is wrong with dispatch's certificate; empty where the failure has nothing to do with TLS."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _verification(cause.verify_code)
        if isinstance(cause, ssl.SSLError):
            return "what answers there does not speak TLS, or not ours: check that --dispatch-url names dispatch's TLS port"
        cause = cause.__cause__ or cause.__context__
    return ""


def _verification(code: int) -> str:
    if code == _EXPIRED:
        return f"dispatch's certificate has expired, or this clock is ahead: the leading operator renews it, {_WHERE}"
    if code == _NOT_YET:
        return "dispatch's certificate is not valid yet: a clock is off; run NTP on the Nodes of the operator and of dispatch"
    if code == _HOST:
        return "dispatch's certificate is for another name than the one in --dispatch-url"
    if code in _SELF_SIGNED:
        return f"dispatch's certificate is of an authority that --dispatch-ca-file does not hold; {_WHERE}"
    return f"dispatch's certificate is not accepted (code {code}); {_WHERE}"


def refused_token(date: str, now: datetime) -> str:
    """Why dispatch may have answered 401. It does not say itself, lest it help whoever guesses; its clock does, by `Date`."""
    try:
        ahead = (now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        ahead = 0.0
    if abs(ahead) > _SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        return f"dispatch refuses our token, and this clock is {abs(ahead):.0f} s {which} dispatch's: run NTP on both"
    return (
        f"dispatch refuses our token: it must be of the account that dispatch's --controller names, for the audience "
        f"{OPERATOR_AUDIENCE}; dispatch's log says what it was"
    )
