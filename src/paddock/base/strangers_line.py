"""What strangers sent and nobody parsed yet: a bounded part of it in each turn of the event loop, in a fair order."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from paddock.base.guests import Guest, StrangerLimits

__all__ = ["Line"]


class Line:
    """Four lines: of unknown addresses, of those that are known for good, of those who send a head in pieces, and of those at a
    door. None of them waits for ever, and all of them together cost a turn no more than the limits say.
    """

    def __init__(self, limits: StrangerLimits, is_known: Callable[[Guest], bool]) -> None:
        self._limits, self._is_known = limits, is_known
        self._unknown: deque[Guest] = deque()
        self._known: deque[Guest] = deque()
        self._dribbling: deque[Guest] = deque()
        self._at_door: deque[Guest] = deque()
        self._bytes = 0
        self._read = 0
        self._begun = {True: 0, False: 0}
        """In this turn: packets, and requests at a door and elsewhere."""
        self._taken = 0
        self._door_was_last = False
        self._turn_asked = False

    def __len__(self) -> int:
        return sum(map(len, (self._unknown, self._known, self._dribbling, self._at_door)))

    def read(self, guest: Guest, data: bytes) -> bool:
        """Parsed now if this turn has room and nobody waits, in its order otherwise. False: there is no room for it at all."""
        if guest.pending is not None:
            guest.pending += data
            guest.stop_reading()
        else:
            if guest.between_requests:
                guest.at_door = data.startswith(self._limits.doors)
            line = self._line_of(guest)
            if self._may_read(at_door=guest.at_door) and not (self._at_door if guest.at_door else len(self)):
                self._read += 1
                self._ask_for_a_turn()
                guest.parse(data)
                return True
            guest.pending = data
            line.append(guest)
            self._ask_for_a_turn()
        self._bytes += len(data)
        return self._bytes <= self._limits.line_bytes

    def left(self, guest: Guest) -> None:
        if guest.pending is not None:
            self._bytes -= len(guest.pending)
            guest.pending = None  # what is left of it in the line is passed over

    def request_begins(self, guest: Guest) -> None:
        self._begun[guest.at_door] += 1

    def _line_of(self, guest: Guest) -> deque[Guest]:
        if guest.at_door:
            return self._at_door
        if guest.dribbles:
            return self._dribbling
        return self._known if self._is_known(guest) else self._unknown

    def _may_read(self, *, at_door: bool) -> bool:
        return self._read < self._limits.reads_a_turn and self._begun[at_door] < self._limits.requests_a_turn

    def _ask_for_a_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked, self._read, self._begun = False, 0, {True: 0, False: 0}
        for guest in self._next_ones():
            if (data := guest.pending) is None:
                continue
            guest.pending = None
            self._bytes -= len(data)
            self._read += 1
            guest.read_on()
            guest.parse(data)
        if self._read:
            self._ask_for_a_turn()

    def _next_ones(self) -> Iterator[Guest]:
        """Whose turn it is, one after the other, as long as this turn has room: one at a door, one of the others, while both wait."""
        while True:
            door = self._at_door if self._may_read(at_door=True) else None
            others = self._of_others() if self._may_read(at_door=False) else None
            line = door if door and not (self._door_was_last and others) else others
            if not line:
                return
            self._door_was_last = line is door
            self._taken += line is not door
            yield line.popleft()

    def _of_others(self) -> deque[Guest] | None:
        """Whoever sends its head in pieces comes last, but one in eight; of the others three in four are of addresses that are
        known for good. Counted over all turns: where each takes one request, all would be taken from the same line.
        """
        place = self._taken % 8
        order = (self._known, self._unknown, self._dribbling)
        if place == 7:
            order = (self._dribbling, self._known, self._unknown)
        elif place % 4 == 0:
            order = (self._unknown, self._known, self._dribbling)
        return next((line for line in order if line), None)
