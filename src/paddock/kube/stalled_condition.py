"""The condition of an object that cannot be reconciled, and what it adds to what is said of the object. Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from paddock.base.explanation import Explanation
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition

__all__ = ["STALLED", "with_stall"]

STALLED: Final = "Stalled"
"""The condition's type, in the word of kstatus: True where no progress is made. It is there only while it is True."""


def with_stall(said: Explanation, conditions: Sequence[Condition]) -> Explanation:
    """What is said of an object, and before it that nobody can bring it forward."""
    found = get_condition(conditions, STALLED)
    if found is None or found.status != "True":
        return said
    return structs.replace(said, sentence=f"{found.message}; as it was before: {said.sentence}", healthy=False)
