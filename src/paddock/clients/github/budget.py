"""The API budget as a resource: one per installation, spent by priority, learned from what GitHub says.

Three gauges say how much is left: the calls of the hour (GitHub tells them with each answer), the points of the last
minute (GitHub allows 900; a read costs 1, a mutation 5, so that 180 mints a minute are possible), and the requests
under way (GitHub allows 100). A call of a priority is refused as soon as one gauge is below the priority's reserve:
clean-up stops at half, verification at a fifth, minting at nothing. A hold, asked for by GitHub, stops them all.

Only this process is counted here; what others with the same App spend is seen in the hourly numbers and in holds.
"""

from collections import deque
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from paddock.base.backoff import LONGEST_ADVICE
from paddock.base.clock import Clock
from paddock.clients.github.contract import BudgetView, Priority
from paddock.clients.github.errors import BudgetSpent
from paddock.clients.github.refusals import WITHOUT_ADVICE, until_reset

__all__ = ["MUTATION_POINTS", "READ_POINTS", "Budget", "Budgets", "Gauge"]

READ_POINTS = 1
MUTATION_POINTS = 5

_RESERVE = {Priority.MINT: 0.0, Priority.VERIFY: 0.2, Priority.CLEAN_UP: 0.5}
_POINTS_A_MINUTE = 900
_UNDER_WAY = 100
_TURN = 0.1  # when too much is under way: how soon to look again
_CORE = "core"
_LEAST_LIMIT = 5000  # what GitHub grants at least, shown to people while nothing is known
_LONGEST_STRIKE = 900.0
_SAME_WINDOW = 30.0  # GitHub's front ends differ by a second or two about when a window ends


class Gauge(Struct, frozen=True):
    """How much of one limit is left."""

    left: float
    limit: float

    def refuses(self, priority: Priority, cost: float) -> bool:
        return self.left < self.needed(priority, cost)

    def needed(self, priority: Priority, cost: float) -> float:
        return max(cost, _RESERVE[priority] * self.limit)


class _Window(Struct):
    """One of GitHub's hourly limits, as of its latest answer."""

    limit: int
    remaining: int
    ends: float


class Budget:
    """What one installation may still be asked.

    Before a request `take`, which either counts it or raises BudgetSpent, at once; after it `landed`, exactly once,
    whatever became of it. Nothing here waits.
    """

    def __init__(self, installation_id: int, clock: Clock) -> None:
        self._installation_id = installation_id
        self._clock = clock
        self._windows: dict[str, _Window] = {}
        # GitHub counts registrations of runners in a bucket of their own, and says so in the answer to the first.
        self._mints_draw_on = _CORE
        self._spent: deque[tuple[float, int]] = deque()
        self._under_way = 0
        self._held_until = 0.0
        self._strikes = 0

    def take(self, priority: Priority, points: int) -> None:
        """Count one request, or raise BudgetSpent with the seconds after which asking again makes sense."""
        wait = self._wait(priority, points)
        if wait is not None:
            raise BudgetSpent(
                f"the API budget of installation {self._installation_id} has nothing left for {priority.name}",
                retry_after=wait,
            )
        self._spent.append((self._clock.monotonic(), points))
        self._under_way += 1

    def landed(self, priority: Priority, headers: Mapping[str, str] | None, *, sent: bool = True) -> None:
        """A request is over. Without `headers` its answer was lost, and without `sent` it never left."""
        self._under_way -= 1
        if headers is None:
            window = self._windows.get(self._resource(priority))
            if sent and window is not None:
                window.remaining = max(0, window.remaining - 1)
            return
        self._learn(priority, headers)

    def welcome(self) -> None:
        """GitHub served a request: the next secondary limit counts as the first again."""
        self._strikes = 0

    def hold(self, advice: float | None) -> float:
        """Send nothing for `advice` seconds, or for as long as fits where GitHub gave none; returns for how long.

        GitHub asks for a minute then, and for more each time in a row. A shorter hold never ends a longer one.
        """
        if advice is None:
            wanted = min(WITHOUT_ADVICE * 2.0**self._strikes, _LONGEST_STRIKE)
            self._strikes = min(self._strikes + 1, 10)
        else:
            wanted = advice
        seconds = min(max(1.0, wanted), LONGEST_ADVICE)
        self._held_until = max(self._held_until, self._clock.monotonic() + seconds)
        return seconds

    def view(self) -> BudgetView:
        now = self._clock.monotonic()
        window = self._current(_CORE)
        return BudgetView(
            installation_id=self._installation_id,
            remaining=window.remaining if window else _LEAST_LIMIT,
            limit=window.limit if window else _LEAST_LIMIT,
            resets_at=self._clock.now() + timedelta(seconds=window.ends - now) if window else None,
            held_until=self._clock.now() + timedelta(seconds=self._held_until - now)
            if self._held_until > now
            else None,
            refused=tuple(
                priority
                for priority in Priority
                if self._wait(priority, MUTATION_POINTS if priority is Priority.MINT else READ_POINTS) is not None
            ),
        )

    def _wait(self, priority: Priority, points: int) -> float | None:
        """None where the call may go; else how long until it may, at the soonest."""
        now = self._clock.monotonic()
        waits = [
            self._held_until - now,
            self._wait_for_window(priority, now),
            self._wait_for_points(priority, points, now),
            _TURN if Gauge(_UNDER_WAY - self._under_way, _UNDER_WAY).refuses(priority, 1) else 0.0,
        ]
        longest = max(waits)
        return longest if longest > 0 else None

    def _wait_for_window(self, priority: Priority, now: float) -> float:
        window = self._current(self._resource(priority))
        # What is under way is not yet in GitHub's number. It may count elsewhere: then this is on the safe side.
        if window is None or not Gauge(window.remaining - self._under_way, window.limit).refuses(priority, 1):
            return 0.0
        return window.ends - now

    def _wait_for_points(self, priority: Priority, points: int, now: float) -> float:
        while self._spent and self._spent[0][0] <= now - 60.0:
            self._spent.popleft()
        left = _POINTS_A_MINUTE - sum(spent for _, spent in self._spent)
        needed = Gauge(left, _POINTS_A_MINUTE).needed(priority, points)
        wait = 0.0
        for moment, spent in self._spent:
            if left >= needed:
                break
            left += spent
            wait = moment + 60.0 - now
        return wait

    def _learn(self, priority: Priority, headers: Mapping[str, str]) -> None:
        now = self._clock.monotonic()
        try:
            limit, left = int(headers["x-ratelimit-limit"]), int(headers["x-ratelimit-remaining"])
        except (KeyError, ValueError):
            return  # headers that are missing or no numbers teach nothing
        seconds = until_reset(headers, self._clock.now())
        if seconds is None or limit <= 0:
            return
        resource = headers.get("x-ratelimit-resource", _CORE)
        if priority is Priority.MINT:
            self._mints_draw_on = resource
        ends, remaining = now + seconds, min(max(0, left), limit)
        known = self._current(resource)
        if known is None or ends > known.ends + _SAME_WINDOW:
            self._windows[resource] = _Window(limit, remaining, ends)
        elif ends > known.ends - _SAME_WINDOW:
            # Answers overtake each other; within a window the number only falls.
            known.limit, known.remaining = limit, min(known.remaining, remaining)

    def _resource(self, priority: Priority) -> str:
        return self._mints_draw_on if priority is Priority.MINT else _CORE

    def _current(self, resource: str) -> _Window | None:
        """The window, or None where nothing is known of the present one."""
        window = self._windows.get(resource)
        return window if window is not None and window.ends > self._clock.monotonic() else None


class Budgets:
    """The budget of each installation; that of the App's own calls has the number 0."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budgets: dict[int, Budget] = {}

    def of(self, installation_id: int) -> Budget:
        if installation_id not in self._budgets:
            self._budgets[installation_id] = Budget(installation_id, self._clock)
        return self._budgets[installation_id]

    def views(self) -> list[BudgetView]:
        return [budget.view() for _, budget in sorted(self._budgets.items())]
