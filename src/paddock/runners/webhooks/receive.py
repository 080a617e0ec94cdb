"""`POST /webhooks/github`: verify over the raw bytes, store, answer, tell the worker; nothing else.

Nothing is parsed here and no job is touched: an outage of anything but the database cannot make GitHub's deliveries fail,
and what was answered 2xx is in the database. A delivery that could not be stored is answered 503, so that GitHub shows it
as failed and it can be delivered again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.http_requests import RefusedError, answer, read_body, refusal
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.base.secrets import Secret
from paddock.clients.github.signature import verify
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.ledger import Delivery, Ledger, LedgerError

__all__ = ["PATH", "Inbox", "webhook_route"]

PATH: Final = "/webhooks/github"
SIGNATURE: Final = "X-Hub-Signature-256"
DELIVERY: Final = "X-GitHub-Delivery"
EVENT: Final = "X-GitHub-Event"

_LONGEST_HEADER = 200
_STORE_WITHIN = 4.0
"""GitHub hangs up after ten seconds; together with the time for the body this stays below."""
_RETRY_AFTER = "30"
_log = get_logger("webhook")


class Inbox(Protocol):
    """Whoever works off deliveries: `webhooks.worker`."""

    @property
    def has_room(self) -> bool:
        """Whether what is stored now may be taken in the same statement."""
        ...

    def take(self, delivery: Delivery) -> None:
        """It was stored, and taken if it has an attempt."""
        ...


def webhook_route(
    ledger: Ledger,
    secrets: Callable[[], Sequence[Secret]],
    settings: DispatchSettings,
    *,
    inbox: Inbox,
    registry: CollectorRegistry,
) -> Route:
    """The route. `secrets` gives the webhook secrets that are valid now, two while one is replaced by the other; without
    any, every delivery is refused. `inbox` is given each new delivery after it was stored.
    """
    requests = Counter(
        "paddock_webhook_requests", "Requests to the webhook, by the status answered.", ["status"], registry=registry
    )

    refusals = RefusalLog(_log)

    async def receive(request: Request) -> Response:
        try:
            response = await _receive(request, ledger, secrets(), settings, inbox)
        except RefusedError as refused:
            response = refused.response
        if response.status_code in (401, 403):
            why = (
                "no signature" if response.status_code == 401 else "the signature is not of this body under our secret"
            )
            refusals.refused("webhook", why, sender=request.client.host if request.client else "")
        requests.labels(str(response.status_code)).inc()
        return response

    return Route(PATH, receive, methods=["POST"])


async def _receive(
    request: Request, ledger: Ledger, secrets: Sequence[Secret], settings: DispatchSettings, inbox: Inbox
) -> Response:
    signature = request.headers.get(SIGNATURE, "")
    if not signature:
        return refusal(401, "no_signature", f"the header {SIGNATURE} is missing: set a secret for the webhook")
    raw = await read_body(request, limit=settings.body_limit, seconds=settings.body_timeout)
    if not verify(raw, signature, secrets):
        return refusal(403, "bad_signature", f"{SIGNATURE} is not the signature of this body under our secret")

    delivery, event = (request.headers.get(name, "") for name in (DELIVERY, EVENT))
    for name, value in ((DELIVERY, delivery), (EVENT, event)):
        if not value or len(value) > _LONGEST_HEADER:
            return refusal(400, "bad_header", f"the header {name} is missing, empty or too long", field=name)
    if event == "ping":
        return answer({"status": "pong"})

    try:
        async with asyncio.timeout(_STORE_WITHIN):
            new = await ledger.deliveries.store(delivery, event, raw, take=inbox.has_room)
    except (LedgerError, TimeoutError) as error:
        # It may be stored all the same: the redelivery is then known by its id.
        why = (
            str(error) or f"the database did not answer within {_STORE_WITHIN:g} s"
        )  # a timeout has no words of its own
        _log.warning("a delivery was not stored", delivery=delivery, github_event=event, error=why)
        sentence = "the delivery could not be stored: deliver it again"
        return refusal(503, "not_stored", sentence, headers={"Retry-After": _RETRY_AFTER})
    if new is None:
        return answer({"status": "known"})
    inbox.take(new)
    return answer({"status": "stored"}, 202)
