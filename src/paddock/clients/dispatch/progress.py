"""Telling dispatch how far a runner is: the mark that healing compares with the one before."""

from collections.abc import Callable
from typing import Final

import httpx2

from paddock.base.secrets import Secret
from paddock.clients.dispatch.poll_client import PATH

__all__ = ["LONGEST_MARK", "ProgressClient"]

LONGEST_MARK: Final = 200
_PROGRESS: Final = "/api/internal/runners/pods/progress"
_TIMEOUT: Final = 5.0


class ProgressClient:
    """Posts marks in the name of one Pod. A mark that is lost is made up for by the next, so nothing is retried."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: Callable[[], Secret]) -> None:
        self._http = http
        self._url = url.rstrip("/").removesuffix(PATH) + _PROGRESS
        self._token = token

    async def post(self, mark: str) -> bool:
        """Whether dispatch took the mark. Raises nothing that the service or the network does."""
        headers = {"Authorization": f"Bearer {self._token().reveal()}"}
        body = {"mark": mark[:LONGEST_MARK]}
        try:
            answer = await self._http.post(self._url, json=body, headers=headers, timeout=_TIMEOUT)
        except httpx2.HTTPError:
            return False
        return answer.is_success
