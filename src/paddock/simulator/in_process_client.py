"""An HTTP client for thousands of simulated Pods: what httpx2 does for cookies, redirects and proxies is left out."""

from typing import Any

import httpx2

__all__ = ["InProcessClient"]


class InProcessClient(httpx2.AsyncClient):
    """Sends each request straight over its one transport.

    Nothing that a Pod asks of dispatch is redirected or sets a cookie, and looking for either at every request of every Pod
    costs as much as the request itself. Requests are built, and answers read, as always.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, trust_env=False)
        self._way = transport

    async def send(self, request: httpx2.Request, *, stream: bool = False, **_options: Any) -> httpx2.Response:
        response = await self._way.handle_async_request(request)
        response.request = request
        try:
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response
