"""The attackers' stage: the rigs of the suites that know each part, and the log in which every refusal must be found."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from integration.identity.test_a_mac_is_a_node import world
from integration.runners.dispatch.conftest import rig

__all__ = ["rig", "world"]

Lines = list[MutableMapping[str, Any]]


@pytest.fixture
def log() -> Iterator[Lines]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def logged(log: Lines) -> Callable[[str, str], bool]:
    """Whether a refusal of this part, with this reason, is in the log."""

    def found(what: str, why: str) -> bool:
        return any(
            line["event"] == "refused"
            and what in line.get("what", "")
            and why in f"{line.get('why')} {line.get('said', '')}"
            for line in log
        )

    return found
