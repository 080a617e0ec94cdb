import pytest
from unit.clients.github.scripted_github import ScriptedGitHub
from unit.clients.scaleway.conftest import clock
from unit.clients.scaleway.stepped_clock import SteppedClock

__all__ = ["clock", "github"]


@pytest.fixture
def github(clock: SteppedClock) -> ScriptedGitHub:
    return ScriptedGitHub(clock)
