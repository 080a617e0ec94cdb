"""The pool controller's retirement API over HTTP: how `paddock operator` asks `paddock dispatch`."""

import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import httpx2
import msgspec

from paddock.base.clock import Clock, SystemClock, rfc3339_micro
from paddock.base.tls import default_tls
from paddock.kube.credentials import Credentials
from paddock.kube.errors import ConfigError
from paddock.runners.http.internal import LARGEST_RETIREMENT, PREFIX, AtWork, EndsOnMacs, Load, Retired
from paddock.runners.ledger import GivenUp, Pod, PoolSignals
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.pools.retirement import RetirementUnavailableError
from paddock.runners.tls.problems import refused_token, tls_problem
from paddock.runners.tls.trust import TrustedAuthority

__all__ = ["HttpRetirementApi"]

T = TypeVar("T")


class HttpRetirementApi:
    """`RetirementApi` of the dispatch process at `url`, shown a token of the operator's account for dispatch alone.

    With `trust`, dispatch proves by a certificate of that authority, and of no other, that it is dispatch, before it is shown
    anything. Every call ends within `seconds`, and every answer but the right one is RetirementUnavailableError: a wrong token, a wrong
    address and a dispatch process that is down all mean that nothing is known. The client is closed by `close`.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        seconds: float = 5.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        trust: TrustedAuthority | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._url = url.rstrip("/") + PREFIX
        self._credentials = credentials
        self._seconds = seconds
        self._transport = transport
        self._trust = trust
        self._clock = clock or SystemClock()
        self._context: ssl.SSLContext | None = None
        self._clients: list[httpx2.AsyncClient] = []
        """The last one is in use; calls in flight end on those before it, of which there is one a renewed authority."""

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    def _client(self) -> httpx2.AsyncClient:
        context = default_tls() if self._trust is None else self._trust.context()
        if context is None:
            assert self._trust is not None
            raise RetirementUnavailableError(
                f"dispatch's authority is not in {self._trust.path}: the leading operator makes it, and the kubelet shows it "
                "within two minutes"
            )
        if not self._clients or context is not self._context:
            self._context = context
            self._clients.append(
                httpx2.AsyncClient(
                    base_url=self._url,
                    timeout=self._seconds,
                    verify=context,
                    transport=self._transport,
                    follow_redirects=False,
                )
            )
        return self._clients[-1]

    async def signals(self, pool: str) -> PoolSignals:
        response = await self._ask("GET", "/desired_replicas", params={"fleet": pool})
        load = _decoded(response, Load)
        if load.fleet != pool:
            raise RetirementUnavailableError(f"asked for pool {pool}, dispatch answered about {load.fleet}")
        return load.signals()

    async def retire(self, pods: Sequence[Pod], *, why: str) -> frozenset[str]:
        retired: set[str] = set()
        for start in range(0, len(pods), LARGEST_RETIREMENT):
            batch = pods[start : start + LARGEST_RETIREMENT]
            asked = {"pods": [{"uid": pod.uid, "name": pod.name} for pod in batch], "why": why}
            retired.update(_decoded(await self._ask("POST", "/pods/retire", body=asked), Retired).retired)
        # Whatever is answered, no Pod that was not asked about is ever deleted for it.
        return frozenset(retired & {pod.uid for pod in pods})

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(pod_uids), LARGEST_RETIREMENT):
            asked = {"pod_uids": list(pod_uids[start : start + LARGEST_RETIREMENT])}
            found |= _decoded(await self._ask("POST", "/pods/at-work", body=asked), AtWork).at_work
        return found

    async def killed(self, kills: Sequence[GivenUp]) -> None:
        for start in range(0, len(kills), LARGEST_RETIREMENT):
            batch = kills[start : start + LARGEST_RETIREMENT]
            jobs = [msgspec.structs.asdict(one) | {"at": rfc3339_micro(one.at) if one.at else None} for one in batch]
            await self._ask("POST", "/pods/killed", body={"jobs": jobs})

    async def ends_on(self, nodes: Sequence[str]) -> Sequence[EndOnMac]:
        found: list[EndOnMac] = []
        for start in range(0, len(nodes), LARGEST_RETIREMENT):
            asked = {"nodes": list(nodes[start : start + LARGEST_RETIREMENT])}
            found += _decoded(await self._ask("POST", "/macs/ends", body=asked), EndsOnMacs).ends
        return found

    async def stopped(self, pod: Pod, ended_at: datetime, *, why: str, ended: bool = True) -> None:
        told: dict[str, Any] = {"pod_uid": pod.uid, "pod_name": pod.name, "ended_at": rfc3339_micro(ended_at)}
        told |= {"why": why, "ended": ended}
        await self._ask("POST", "/pods/stopped", body=told)

    async def _ask(self, method: str, path: str, *, body: Any = None, params: Any = None) -> httpx2.Response:
        response = await self._send(method, path, body, params)
        if response.status_code == 401 and self._credentials.rejected():
            response = await self._send(method, path, body, params)
        if response.status_code == 401:
            raise RetirementUnavailableError(refused_token(response.headers.get("date", ""), self._clock.now()))
        if response.status_code not in (200, 204):
            raise RetirementUnavailableError(f"dispatch answered {response.status_code} to {method} {path}")
        return response

    async def _send(self, method: str, path: str, body: Any, params: Any) -> httpx2.Response:
        try:
            token = (await self._credentials.current()).token
        except ConfigError as error:
            raise RetirementUnavailableError(f"there is no token to show to dispatch: {error}") from error
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        content = None if body is None else msgspec.json.encode(body)
        try:
            return await self._client().request(method, path, content=content, params=params, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if problem := tls_problem(error):
                if self._trust is not None:
                    self._trust.doubted()
                raise RetirementUnavailableError(problem) from error
            # The class alone: the text of some of these quotes what was sent.
            raise RetirementUnavailableError(f"dispatch cannot be asked: {type(error).__name__}") from error


def _decoded(response: httpx2.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RetirementUnavailableError(f"dispatch answered something else than a {kind.__name__}") from error
