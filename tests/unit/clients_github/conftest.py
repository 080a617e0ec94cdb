import pytest
from unit.clients.conftest import clock
from unit.clients.stepped_clock import SteppedClock
from unit.clients_github.scripted_github import ScriptedGitHub

__all__ = ["clock", "github"]


@pytest.fixture
def github(clock: SteppedClock) -> ScriptedGitHub:
    return ScriptedGitHub(clock)
