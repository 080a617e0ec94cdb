"""One request and its answer, as the rest of the package speaks of them."""

from collections.abc import Generator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec

from paddock.base.secrets import Secret
from paddock.clients.github.contract import Priority
from paddock.clients.github.errors import Unavailable

__all__ = ["Bearer", "GitHubRequest", "GitHubResponse", "Params"]

T = TypeVar("T")
Params = Mapping[str, str | int]


class GitHubRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `installation_id` says as whom and on whose budget it is sent; `APP` for the App itself."""

    installation_id: int
    priority: Priority
    method: str
    path: str
    params: Params | None = None
    body: dict[str, Any] | None = None
    harmless: bool = False
    """A mutation of which no caller needs to know whether it happened."""

    @property
    def mutation(self) -> bool:
        return self.method != "GET"

    @property
    def effect(self) -> bool:
        return self.mutation and not self.harmless

    @property
    def where(self) -> str:
        return f"{self.method} {self.path}"


class GitHubResponse(msgspec.Struct, frozen=True):
    """A success. Its body may hold a token or a JIT config, so that it never shows."""

    call: GitHubRequest
    status: int
    headers: httpx2.Headers
    content: bytes

    def __repr__(self) -> str:
        return f"Answer({self.call.where}, {self.status})"

    def shaped(self, shape: type[T]) -> T:
        """The JSON as the given type; an answer of another shape is not GitHub's, so it counts as unavailable."""
        try:
            return msgspec.json.decode(self.content, type=shape, dec_hook=_secret)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # The text names the field and the expected type, never the value.
            reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        raise Unavailable(
            f"{self.call.where}: the answer cannot be used: {reason}",
            status=self.status,
            effect_unknown=self.call.effect,
        )

    def next_page(self, parameter: str) -> str | None:
        """The value of `parameter` in the link to the next page; None where there is no such link.

        Only that value is used, never the link itself: our credentials go nowhere but to the API's own address.
        """
        link = httpx2.Response(self.status, headers=self.headers).links.get("next")
        values = parse_qs(urlsplit(link["url"]).query).get(parameter) if link else None
        return values[0] if values else None


class Bearer(httpx2.Auth):
    """Puts the credential into the request at the last moment, so that nothing else ever holds it as text."""

    def __init__(self, credential: Secret, scheme: str = "Bearer") -> None:
        self._credential = credential
        self._scheme = scheme

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"{self._scheme} {self._credential.reveal()}"
        yield request


def _secret(kind: type, value: Any) -> Secret:
    # What is secret in an answer is so from the moment it is decoded.
    if kind is Secret and isinstance(value, str) and value:
        return Secret(value)
    raise ValueError("expected a text that is not empty")
