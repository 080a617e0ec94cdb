"""The limits that GitHub puts on its callers: an hourly budget, points by the minute, calls at once."""

from collections import deque
from datetime import datetime, timedelta

from paddock.simulator.github import problems
from paddock.simulator.github.access import GitHubCall
from paddock.simulator.github.behaviour import GitHubBehaviour

__all__ = ["ApiLimits"]

_POINTS_OF_A_WRITE = 5
_SEARCHES = 30
"""What the real one shows of searches, of which there are none here."""


class _Hour:
    """A budget that is full again one window after its first use."""

    def __init__(self) -> None:
        self.used = 0
        self.resets_at: datetime | None = None

    def renew(self, now: datetime, window: timedelta) -> datetime:
        if self.resets_at is None or now >= self.resets_at:
            self.used, self.resets_at = 0, now + window
        return self.resets_at


class ApiLimits:
    """What each installation has used. It is not saved: whoever restarts GitHub starts with full budgets."""

    def __init__(self, behaviour: GitHubBehaviour) -> None:
        self._behaviour = behaviour
        self._hours: dict[tuple[str, str], _Hour] = {}
        self._points: dict[str, deque[tuple[datetime, int]]] = {}
        self._open: dict[str, int] = {}

    def admit(self, call: GitHubCall) -> dict[str, str]:
        """Count the call and return its rate-limit headers; raises the refusal of the limit it breaks.

        A call that is refused for its points still counts as a call, as at the real GitHub.
        """
        behaviour, now = self._behaviour, call.now
        hour, limit, resource = self._hour(call)
        resets_at = hour.renew(now, self._window(3600))
        if hour.used >= limit:
            raise problems.primary_limit(_headers(limit, limit, resets_at, resource))
        hour.used += 1
        recent = self._points.setdefault(call.budget, deque())
        minute = self._window(60)
        while recent and now - recent[0][0] >= minute:
            recent.popleft()
        cost = 1 if call.request.method == "GET" else _POINTS_OF_A_WRITE
        if sum(points for _, points in recent) + cost > behaviour.points_per_minute:
            wait = (recent[0][0] + minute - now).total_seconds() if recent else minute.total_seconds()
            raise problems.secondary_limit(behaviour.secondary_status, wait)
        if self._open.get(call.request.authorization, 0) > behaviour.calls_at_once:
            raise problems.secondary_limit(behaviour.secondary_status, minute.total_seconds())
        recent.append((now, cost))
        return _headers(hour.used, limit, resets_at, resource)

    def view(self, call: GitHubCall) -> dict[str, dict[str, int]]:
        """What `GET /rate_limit` shows; asking costs nothing."""
        shown: dict[str, dict[str, int]] = {}
        for resource, limit in self._limits().items():
            hour = self._hours.get((call.budget, resource)) or _Hour()
            resets_at = hour.renew(call.now, self._window(3600))
            left = max(0, limit - hour.used)
            shown[resource] = {"limit": limit, "used": hour.used, "remaining": left, "reset": _epoch(resets_at)}
        return shown

    def exhausted(self, now: datetime) -> dict[str, str]:
        """The headers of a budget with nothing left."""
        limit = self._behaviour.calls_per_hour
        return _headers(limit, limit, now + self._window(3600), "core")

    def enter(self, credential: str) -> None:
        """A call begins. Calls at once are counted by credential, because that is known before the caller is."""
        self._open[credential] = self._open.get(credential, 0) + 1

    def leave(self, credential: str) -> None:
        self._open[credential] -= 1
        if not self._open[credential]:
            del self._open[credential]

    def _hour(self, call: GitHubCall) -> tuple[_Hour, int, str]:
        resource = "actions_runner_registration" if call.operation == "mint" else "core"
        return self._hours.setdefault((call.budget, resource), _Hour()), self._limits()[resource], resource

    def _limits(self) -> dict[str, int]:
        behaviour = self._behaviour
        registrations = behaviour.registrations_per_hour
        return {"core": behaviour.calls_per_hour, "actions_runner_registration": registrations, "search": _SEARCHES}

    def _window(self, seconds: float) -> timedelta:
        return timedelta(seconds=seconds / self._behaviour.speed)


def _headers(used: int, limit: int, resets_at: datetime, resource: str) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(max(0, limit - used)),
        "X-RateLimit-Used": str(used),
        "X-RateLimit-Reset": str(_epoch(resets_at)),
        "X-RateLimit-Resource": resource,
    }


def _epoch(moment: datetime) -> int:
    return int(-(-moment.timestamp() // 1))
