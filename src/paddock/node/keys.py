"""The keys that a Mac holds for the gateway: the newest that it was given, and the one that was last answered. Pure."""

from msgspec import Struct

__all__ = ["Keys"]


class Keys(Struct, frozen=True, omit_defaults=True):
    """`number` is that of the newest key, also after that one has proven itself."""

    number: int = 0
    newest: str = ""
    proven: str = ""

    def offered(self, key: str, number: int) -> "Keys | None":
        """With a key that came over SSH. Only a higher number is taken: SSH is not fenced, so that the key of a leader that
        stalled may arrive after its successor's.
        """
        return Keys(number, key, self.proven) if number > self.number else None

    def answered(self, key: str) -> "Keys":
        """After the gateway took a request with this key. What was good before is given up for the newest alone."""
        return Keys(self.number, "", key) if key == self.newest else self

    @property
    def to_try(self) -> tuple[str, ...]:
        """In this order, at each refusal the next: only when all are refused the gateway's word is believed."""
        return tuple(each for each in (self.newest, self.proven) if each)

    def __repr__(self) -> str:
        """Without the keys: they reach no log by way of an error or a test's message."""
        return (
            f"Keys(number={self.number}, newest={'***' if self.newest else ''}, proven={'***' if self.proven else ''})"
        )
