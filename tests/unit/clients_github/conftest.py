import pytest
from unit.clients.stepped_clock import SteppedClock
from unit.clients_github.scripted_github import ScriptedGitHub


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def github(clock: SteppedClock) -> ScriptedGitHub:
    return ScriptedGitHub(clock)
