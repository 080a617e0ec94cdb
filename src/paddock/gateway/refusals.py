"""What a request is answered that does not count. Shared by everything that reads one."""

from msgspec import Struct

__all__ = ["Later", "Refused"]


class Refused(Struct, frozen=True):
    """Asking in the same way again changes nothing. `message` is one sentence that repeats nothing of the request."""

    status: int
    message: str


class Later(Struct, frozen=True):
    """Nothing is known about the request yet, so that nothing follows from it: ask again after so many seconds."""

    status: int
    message: str
    retry_after: float
