"""One thing that a dispatch process sees of what it stands on, as a value."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

__all__ = ["Concern"]


class Concern(Struct, frozen=True, kw_only=True):
    """`fix` is empty where all is well."""

    about: str
    found: str
    fix: str = ""
    weight: Literal["advice", "soon", "stops"] = "advice"
    """`stops`: no job is claimed while it lasts; `soon`: it will come to that. Both are problems wherever people look."""
    since: datetime | None = None
