"""A Pod's token: asked of the API server in the Pod's name, renewed in time, and kept in this process alone."""

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.kube.builtin import Pod, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError

__all__ = ["PodToken", "TokenSource", "token_source"]

log = get_logger("node tokens")
_BACKOFF = Backoff(base=1.0, cap=30.0)


class TokenSource(msgspec.Struct, frozen=True):
    """The token that a Pod's projected volume asks for."""

    service_account: str
    audience: str


def token_source(pod: Pod) -> TokenSource:
    """The token that the Pod asks for; with no such volume, its account's for the API's own audience."""
    account = pod.spec.service_account_name or "default"
    for volume in pod.spec.volumes:
        if (source := _token_of(volume)) is not None and source.get("audience"):
            return TokenSource(account, str(source["audience"]))
    return TokenSource(account, "")


def _token_of(volume: Mapping[str, Any]) -> dict[str, Any] | None:
    for source in (volume.get("projected") or {}).get("sources") or ():
        if isinstance(token := source.get("serviceAccountToken"), dict):
            return token
    return None


class PodToken:
    """The token that the Pod's projected volume asks for, bound to the Pod. It never reaches the disk or the VM.

    Tokens live for two hours and are renewed every ten minutes, by the monotonic clock: an hour without an API server costs
    no Pod its place, and neither does a jump of the wall clock.
    """

    def __init__(
        self, client: Client, pod: Pod, *, clock: Clock, rng: random.Random, seconds: int, every: float
    ) -> None:
        self._client = client
        self._pod = pod
        self._clock = clock
        self._rng = rng
        self._seconds = seconds
        self._every = every
        self._token: Secret | None = None
        self._minted_at = 0.0

    @property
    def age(self) -> float:
        return self._clock.monotonic() - self._minted_at if self._token is not None else float("inf")

    def current(self) -> Secret:
        """The newest token. Call `renew` once before."""
        assert self._token is not None, "renew() comes first"
        return self._token

    async def at_hand(self) -> bool:
        """Whether there is a token; one that is old is renewed first, where that succeeds at once."""
        if self.age >= self._every:
            try:
                await self._mint()
            except KubeError as error:
                log.info("a Pod's token is not renewed yet", pod=self._pod.metadata.name, why=str(error))
        return self._token is not None

    async def renew(self) -> None:
        """Have a new token, however long the API server is away."""
        failures = 0
        while True:
            try:
                await self._mint()
            except KubeError as error:
                failures += 1
                wait = _BACKOFF.delay(failures, self._rng)
                log.warning("a Pod's token cannot be had yet", pod=self._pod.metadata.name, why=str(error), again=wait)
                await self._clock.sleep(wait)
            else:
                return

    async def keep_fresh(self) -> None:
        """Renew for ever; while that fails the old token is used."""
        while True:
            await self._clock.sleep(self._every if self._token is None else max(0.0, self._every - self.age))
            await self.renew()

    async def _mint(self) -> None:
        source = token_source(self._pod)
        self._token, _ = await self._client.create_token(
            source.service_account,
            self._pod.metadata.namespace,
            audiences=(source.audience,) if source.audience else (),
            expiration_seconds=self._seconds,
            bound_to=reference_to(self._pod),
        )
        self._minted_at = self._clock.monotonic()
