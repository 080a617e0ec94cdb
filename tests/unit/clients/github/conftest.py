import pytest
from doubles.clocks import SteppedClock
from doubles.scripted_github import ScriptedGitHub
from unit.clients.scaleway.conftest import clock

__all__ = ["clock", "github"]


@pytest.fixture
def github(clock: SteppedClock) -> ScriptedGitHub:
    return ScriptedGitHub(clock)
