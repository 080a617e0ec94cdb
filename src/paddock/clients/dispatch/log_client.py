"""Giving dispatch what a runner prints, piece by piece."""

from collections.abc import Callable
from typing import Final

import httpx2
import msgspec

from paddock.base.secrets import Secret
from paddock.clients.dispatch.poll_client import PATH

__all__ = ["LARGEST_PIECE", "LogClient"]

LARGEST_PIECE: Final = 1 << 16
_LOG: Final = "/api/internal/runners/pods/log"
_TIMEOUT: Final = 10.0


class _Answer(msgspec.Struct, frozen=True):
    next: int


class LogClient:
    """Posts pieces in the name of one Pod. Every post may be repeated: dispatch keeps no byte twice.

    At the gateway `path` names the Pod; `refused` is called with each token that is not accepted.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        token: Callable[[], Secret],
        *,
        path: str = _LOG,
        refused: Callable[[Secret], None] | None = None,
    ) -> None:
        self._http = http
        self._url = url.rstrip("/").removesuffix(PATH) + path
        self._token = token
        self._refused = refused

    async def post(self, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        """The byte that dispatch expects next; None where it cannot be told, for whatever reason. Never raises."""
        token = self._token()
        headers = {"Authorization": f"Bearer {token.reveal()}", "Content-Type": "application/octet-stream"}
        params = {"from": str(first_byte)} | ({"end": "true"} if ended else {})
        try:
            answer = await self._http.post(self._url, params=params, content=content, headers=headers, timeout=_TIMEOUT)
            if answer.status_code == 401 and self._refused is not None:
                self._refused(token)
            return msgspec.json.decode(answer.content, type=_Answer).next if answer.status_code == 200 else None
        except (httpx2.HTTPError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
