"""How many TokenReviews may be caused, and by whom: the API server is everybody's, and dispatch faces the internet."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.rate_limit import RateLimit, RateLimits

__all__ = ["HOLDER_RATE", "STRANGER_RATE", "ReviewLimits", "TooManyReviewsError"]

STRANGER_RATE: Final = 20.0
"""A second, for all together whose token nobody has vouched for: anybody can make such a token up."""
STRANGER_BURST: Final = 100.0
"""As many Pods as may show a token of a key that is newer than our last look."""
HOLDER_RATE: Final = 50.0
"""A second, for each holder of a token that the cluster signed: a Pod reports every few seconds, the operator asks for pools."""
HOLDER_BURST: Final = 200.0
_SAID_EVERY: Final = 60.0

log = get_logger("dispatch")


class TooManyReviewsError(Exception):
    """The question was not asked: whoever shows the token is told to ask again."""


class ReviewLimits:
    """Raises TooManyReviewsError instead of letting a question through. A claim's own question has no limit: it is asked once
    for each job that there is.
    """

    def __init__(self, clock: Clock, registry: CollectorRegistry | None = None) -> None:
        self._clock = clock
        self._strangers = RateLimit(STRANGER_RATE, STRANGER_BURST, clock)
        self._holders = RateLimits(HOLDER_RATE, HOLDER_BURST, clock)
        self._said_at: float | None = None
        self._reviews = Counter(
            "paddock_dispatch_token_reviews",
            "Tokens about which the API server was asked, for a Pod or the operator or for a stranger whose token no known key"
            " signed, and those about which it was not, because of the limit.",
            ("outcome",),
            registry=registry or CollectorRegistry(),
        )
        for outcome in ("asked", "asked_for_stranger", "limited_stranger", "limited_holder"):
            self._reviews.labels(outcome)

    def asked(self, *, stranger: bool = False) -> None:
        """`stranger`: nobody has vouched for the token, so whoever shows it may be anybody."""
        self._reviews.labels("asked_for_stranger" if stranger else "asked").inc()

    def stranger(self) -> None:
        if not self._strangers.take():
            self._refuse("stranger", "tokens that no known key has signed")

    def holder(self, subject: str, pod_uid: str) -> None:
        if not self._holders.take((subject, pod_uid)):
            self._refuse("holder", f"the token of {subject}")

    def _refuse(self, who: str, of: str) -> None:
        self._reviews.labels(f"limited_{who}").inc()
        now = self._clock.monotonic()
        if self._said_at is None or now - self._said_at >= _SAID_EVERY:
            # Once a minute: a flood of tokens must not become a flood of lines.
            log.warning("more is asked about tokens than may be; the API server is spared", whose=of)
            self._said_at = now
        raise TooManyReviewsError
