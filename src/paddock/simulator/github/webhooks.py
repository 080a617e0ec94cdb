"""Webhooks: what is sent when, what goes wrong on the way, and the log of every attempt."""

import asyncio
import hashlib
import hmac
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import httpx2
import msgspec

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.base.tls import default_tls
from paddock.simulator.github.faults import FaultKind, GitHubFaults
from paddock.simulator.github.state import Attempt, GitHubState, Outgoing, SimulatedAccount, SimulatedJob
from paddock.simulator.github.wire import event_json, installation_event_json, renamed_event_json
from paddock.simulator.github.wire_places import addressed

__all__ = ["Webhooks", "signature"]

_REPEATED_WITHIN = (0.1, 5.0)
_OVERTAKEN_BY = (0.1, 2.0)


def signature(secret: str, body: bytes, algorithm: str = "sha256") -> str:
    """What GitHub writes into `X-Hub-Signature-256` for these bytes."""
    return f"{algorithm}={hmac.new(secret.encode(), body, getattr(hashlib, algorithm)).hexdigest()}"


class Webhooks:
    """Plans deliveries when events happen, and sends them when they are due.

    The body is what was true at the event, byte for byte, however late it arrives. Without an address nothing is
    planned, as for an App without a webhook.
    """

    def __init__(self, state: GitHubState, clock: Clock, rng: random.Random, faults: GitHubFaults) -> None:
        self._state = state
        self._clock = clock
        self._rng = rng
        self._faults = faults
        self.in_flight: list[Outgoing] = []
        self._url = ""
        self._client: httpx2.AsyncClient | None = None

    @property
    def url(self) -> str:
        return self._url

    def point_to(self, url: str, transport: httpx2.AsyncBaseTransport | None) -> httpx2.AsyncClient | None:
        """Deliver there from now on; returns the client used so far, for the caller to close."""
        former = self._client
        self._url = url
        # No proxy of the environment stands between a simulation and its loopback.
        tls = default_tls() if url.startswith("https:") else False
        self._client = httpx2.AsyncClient(transport=transport, verify=tls, trust_env=False) if url else None
        return former

    # Planning

    def announce(self, job: SimulatedJob, action: str, now: datetime) -> None:
        account = self._state.accounts[job.repository.partition("/")[0].lower()]
        repository = self._state.repository(job.repository)
        if not self._url or not account.installed or account.suspended_at is not None or repository is None:
            return  # what happens in a repository that the installation lost is not told
        outgoing = Outgoing(
            due=now + self._drawn(self._state.behaviour.delivery),
            guid=new_uuid(self._rng),
            action=action,
            body=self._encoded(event_json(self._state, job, action, now)),
            job_id=job.id,
            installation_id=account.installation_id,
            repository_id=repository.id,
        )
        former = self._state.held.pop(job.id, None)
        self._plan(outgoing, self._mishap(action))
        if former is not None:
            former.due = outgoing.due + self._drawn(_OVERTAKEN_BY)
            self._state.outgoing.append(former)

    def announce_installation(
        self, account: SimulatedAccount, action: str, now: datetime, names: Sequence[str] = ()
    ) -> None:
        """Something happened to the App's installation: installed, suspended, removed, or given other repositories."""
        event = "installation_repositories" if action in ("added", "removed") else "installation"
        self._announce(account, event, action, installation_event_json(self._state, account, action, names), now)

    def announce_rename(self, account: SimulatedAccount, former: str, now: datetime) -> None:
        """The account where the App is installed has another login."""
        self._announce(account, "installation_target", "renamed", renamed_event_json(account, former), now)

    def _announce(
        self, account: SimulatedAccount, event: str, action: str, body: dict[str, Any], now: datetime
    ) -> None:
        if not self._url:
            return
        outgoing = Outgoing(
            due=now + self._drawn(self._state.behaviour.delivery),
            guid=new_uuid(self._rng),
            action=action,
            body=self._encoded(body),
            job_id=0,
            installation_id=account.installation_id,
            repository_id=0,
            event=event,
        )
        fault = self._faults.for_delivery(action, self._rng)
        self._plan(outgoing, None if fault is None else (fault.kind, fault.delay))

    def _encoded(self, body: dict[str, Any]) -> bytes:
        return addressed(msgspec.json.encode(body), self._state.address)

    def again(self, attempt: Attempt, now: datetime) -> None:
        """Send what that attempt sent, under the same id."""
        outgoing = Outgoing(
            due=now + self._drawn(self._state.behaviour.delivery),
            guid=attempt.guid,
            action=attempt.action,
            body=attempt.body,
            job_id=attempt.job_id,
            installation_id=attempt.installation_id,
            repository_id=attempt.repository_id,
            redelivery=True,
            event=attempt.event,
        )
        fault = self._faults.for_delivery("redelivery", self._rng)
        self._plan(outgoing, None if fault is None else (fault.kind, fault.delay))

    def _mishap(self, action: str) -> tuple[FaultKind, float] | None:
        fault = self._faults.for_delivery(action, self._rng)
        if fault is not None:
            return fault.kind, fault.delay
        behaviour = self._state.behaviour
        rates = (
            (FaultKind.UNSENT, behaviour.unsent),
            (FaultKind.UNSENT, behaviour.unsent_completed if action == "completed" else 0.0),
            (FaultKind.UNDELIVERED, behaviour.undelivered),
            (FaultKind.REPEATED, behaviour.repeated),
            (FaultKind.DELAYED, behaviour.delayed),
            (FaultKind.OVERTAKEN, behaviour.overtaken),
        )
        # A rate of zero draws nothing, so that switching one habit on leaves the rest of a seeded run alone.
        return next(((kind, 0.0) for kind, rate in rates if rate > 0 and self._rng.random() < rate), None)

    def _plan(self, outgoing: Outgoing, mishap: tuple[FaultKind, float] | None) -> None:
        kind, delay = mishap or (None, 0.0)
        if kind is FaultKind.UNSENT:
            return
        if (
            kind is FaultKind.OVERTAKEN
            and outgoing.job_id
            and outgoing.action != "completed"
            and not outgoing.redelivery
        ):
            self._state.held[outgoing.job_id] = outgoing
            return
        if kind in {FaultKind.DELAYED, FaultKind.OVERTAKEN}:
            late = timedelta(seconds=delay) if delay else self._drawn(self._state.behaviour.delayed_by)
            outgoing.due += late
        outgoing.fails = kind is FaultKind.UNDELIVERED
        self._state.outgoing.append(outgoing)
        if kind is FaultKind.REPEATED:
            again = outgoing.due + self._drawn(_REPEATED_WITHIN)
            self._state.outgoing.append(msgspec.structs.replace(outgoing, due=again))

    def _drawn(self, seconds: tuple[float, float]) -> timedelta:
        return timedelta(seconds=self._rng.uniform(*seconds) / self._state.behaviour.speed)

    # Sending

    def next_due(self) -> datetime | None:
        return min((outgoing.due for outgoing in self._state.outgoing), default=None)

    def take_due(self, now: datetime) -> list[Outgoing]:
        """What is to be sent now, oldest first. The caller sends all of it."""
        due = sorted((each for each in self._state.outgoing if each.due <= now), key=lambda each: each.due)
        if due:
            self._state.outgoing = [each for each in self._state.outgoing if each.due > now]
            self.in_flight.extend(due)
        return due

    async def send(self, outgoing: Outgoing) -> Attempt:
        """Deliver once and write the log; never raises for what the receiver does."""
        number = self._state.fresh_id()
        started, began = self._clock.now(), self._clock.monotonic()
        status, code = await self._post(outgoing)
        attempt = Attempt(
            id=number,
            guid=outgoing.guid,
            delivered_at=started,
            redelivery=outgoing.redelivery,
            duration=self._clock.monotonic() - began,
            status=status,
            status_code=code,
            action=outgoing.action,
            installation_id=outgoing.installation_id,
            repository_id=outgoing.repository_id,
            job_id=outgoing.job_id,
            body=outgoing.body,
            event=outgoing.event,
        )
        # Only now: a delivery that is broken off by a restart is sent again, as if it had never been.
        self.in_flight.remove(outgoing)
        log = self._state.attempts
        log[attempt.id] = attempt
        self._trim(started)
        return attempt

    def _trim(self, now: datetime) -> None:
        """Forget what GitHub forgets. Attempts are in the order of their numbers, which is nearly that of their moments."""
        behaviour, log = self._state.behaviour, self._state.attempts
        oldest = now - timedelta(seconds=behaviour.delivery_kept)
        while log and (len(log) > behaviour.deliveries_kept or next(iter(log.values())).delivered_at < oldest):
            del log[next(iter(log))]

    async def _post(self, outgoing: Outgoing) -> tuple[str, int]:
        limit = self._state.behaviour.delivery_limit
        if outgoing.fails or self._client is None:
            return "failed to connect to host", 502
        try:
            async with asyncio.timeout(limit):
                response = await self._client.post(
                    self._url, content=outgoing.body, headers=self._headers(outgoing), timeout=limit
                )
        except (TimeoutError, httpx2.TimeoutException):
            return "timed out", 504
        except httpx2.TransportError:
            return "failed to connect to host", 502
        if response.is_success:
            return "OK", response.status_code
        return f"Invalid HTTP Response: {response.status_code}", response.status_code

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        secret = self._state.webhook_secret
        return {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/5a1f0c7",
            "X-GitHub-Delivery": outgoing.guid,
            "X-GitHub-Event": outgoing.event,
            "X-GitHub-Hook-ID": str(self._state.hook_id),
            "X-GitHub-Hook-Installation-Target-ID": str(self._state.app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature": signature(secret, outgoing.body, "sha1"),
            "X-Hub-Signature-256": signature(secret, outgoing.body),
        }

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
