"""Who asks, and what they may see: the App by its signature, an installation by its token."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from paddock.simulator.github import problems
from paddock.simulator.github.requests import APP_OPERATIONS, GitHubApiRequest, json_answer
from paddock.simulator.github.state import GitHubState, SimulatedAccount, SimulatedRepository
from paddock.simulator.service.response import ServiceResponse

__all__ = [
    "TOKEN_LIFE",
    "GitHubCall",
    "authenticated",
    "by_name",
    "link_header",
    "page_of",
    "paged",
    "permitted",
    "repository_of",
]

T = TypeVar("T")
TOKEN_LIFE = timedelta(hours=1)
_LONGEST_JWT = timedelta(minutes=10)
_DRIFT = timedelta(seconds=60)  # how far ahead of GitHub's a caller's clock may be
_DEFAULT_PAGE = 30
_LARGEST_PAGE = 100
_NUMBERED = re.compile(r"/repositories/(?P<number>\d{1,18})(?P<rest>/.*)?")


class GitHubCall(msgspec.Struct, frozen=True):
    """A request whose sender is known, at one moment. `account` is None for the App itself."""

    request: GitHubApiRequest
    operation: str
    parts: dict[str, str]
    account: SimulatedAccount | None
    now: datetime

    @property
    def query(self) -> dict[str, str]:
        return self.request.query

    @property
    def fields(self) -> dict[str, Any]:
        fields = self.request.fields()
        if fields is None:
            raise problems.bad_json()
        return fields

    @property
    def budget(self) -> str:
        """Whose rate limit this call draws on."""
        return "app" if self.account is None else str(self.account.installation_id)


def authenticated(
    state: GitHubState, public_key: RSAPublicKey, request: GitHubApiRequest, operation: str, now: datetime
) -> SimulatedAccount | None:
    """The installation's account behind the request, or None for the App; raises the 401 or 403 of the real API."""
    scheme, _, credential = request.authorization.partition(" ")
    if scheme.lower() not in {"bearer", "token"} or not credential:
        raise problems.ProblemError(401, "Requires authentication")
    if operation in APP_OPERATIONS:
        _check_app(state, public_key, credential.strip(), now)
        return None
    token = state.tokens.get(credential.strip())
    if token is None or token.expires_at <= now:
        raise problems.bad_credentials()
    account = state.installation(token.installation_id)
    if account is None:
        raise problems.bad_credentials()
    if account.suspended_at is not None:
        raise problems.suspended()
    return account


def _check_app(state: GitHubState, public_key: RSAPublicKey, credential: str, now: datetime) -> None:
    try:
        # The times are checked here and by this GitHub's clock, which need not be the machine's.
        claims = jwt.decode(
            credential,
            public_key,
            algorithms=["RS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_iss": False},
        )
    except jwt.InvalidTokenError:
        raise problems.undecodable() from None
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(expires, int | float) or expires <= now.timestamp():
        what = "must be a numeric value representing the future time at which the assertion expires"
        raise problems.undecodable(f"'Expiration time' claim ('exp') {what}")
    if expires > (now + _LONGEST_JWT).timestamp():
        raise problems.undecodable("'Expiration time' claim ('exp') is too far in the future")
    if not isinstance(issued, int | float) or issued > (now + _DRIFT).timestamp():
        what = "must be an Integer representing the time that the assertion was issued"
        raise problems.undecodable(f"'Issued at' claim ('iat') {what}")
    if str(claims.get("iss")) not in (str(state.app_id), state.client_id):
        raise problems.ProblemError(404, "Integration not found")


def repository_of(state: GitHubState, call: GitHubCall) -> SimulatedRepository:
    """The repository of the path, if the caller's installation sees it; another's answers as if it were not there.

    One that was renamed sends its callers on, by its number, which no rename changes.
    """
    name = f"{call.parts['owner']}/{call.parts['repo']}"
    repository = state.repository(name)
    if repository is None and (number := state.moved.get(name.lower())) is not None:
        known = state.repository_by_id(number)
        if known is not None and call.account is not None and known.owner == call.account.login:
            raise problems.moved(_by_number(call, name, number), method=call.request.method)
    if repository is None or call.account is None or repository.owner != call.account.login:
        raise problems.missing()
    return repository


def by_name(state: GitHubState, request: GitHubApiRequest) -> GitHubApiRequest:
    """A request for a repository by its number as one by its name; every other as it is."""
    found = _NUMBERED.fullmatch(request.path)
    repository = state.repository_by_id(int(found["number"])) if found is not None else None
    if found is None or repository is None:
        return request
    return msgspec.structs.replace(request, path=f"/repos/{repository.full_name}{found['rest'] or ''}")


def _by_number(call: GitHubCall, name: str, number: int) -> str:
    request = call.request
    rest = request.path[len(f"/repos/{name}") :]
    query = f"?{urlencode(request.query)}" if request.query else ""
    return f"{request.base_url}/repositories/{number}{rest}{query}"


def permitted(call: GitHubCall, permission: str, needed: str) -> None:
    """Raise the 403 of the real API unless the installation has this permission."""
    has = call.account.permissions.get(permission, "none") if call.account is not None else "none"
    if has not in {"write", needed}:
        raise problems.forbidden()


def page_of(call: GitHubCall) -> tuple[int, int]:
    """The number and the size of the page asked for; a size beyond the largest is cut, as the real API does."""
    return _number(call, "page", 1), min(_number(call, "per_page", _DEFAULT_PAGE), _LARGEST_PAGE)


def paged(call: GitHubCall, key: str, entries: Sequence[T], render: Callable[[T], Any]) -> ServiceResponse:
    """One page of the entries with their total, and links to the others; without a key, a bare list."""
    page, size = page_of(call)
    last = max(1, -(-len(entries) // size))
    links = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    if page >= last:
        links = {name: number for name, number in links.items() if name not in {"next", "last"}}
    if page <= 1:
        links = {name: number for name, number in links.items() if name not in {"prev", "first"}}
    shown = [render(entry) for entry in entries[(page - 1) * size : page * size]]
    header = link_header(call, {name: {"page": str(number)} for name, number in links.items()})
    return json_answer(200, {"total_count": len(entries), key: shown} if key else shown, headers=header)


def link_header(call: GitHubCall, links: dict[str, dict[str, str]]) -> dict[str, str]:
    """The Link header to the same request with these parameters changed; none without links."""
    request = call.request
    parts = [
        f'<{request.base_url}{request.path}?{urlencode({**request.query, **changed})}>; rel="{name}"'
        for name, changed in links.items()
    ]
    return {"Link": ", ".join(parts)} if parts else {}


def _number(call: GitHubCall, name: str, default: int) -> int:
    text = call.query.get(name, "")
    return int(text) if text.isdigit() and int(text) >= 1 else default
