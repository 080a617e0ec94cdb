import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.node.guest.guests import Guest

SHELLS = {"dash": "dash", "bash": "bash", "zsh": "zsh"}


@pytest.fixture(params=list(SHELLS))
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guest]:
    """The guest under each shell that may be a Mac's `/bin/sh`, and under Debian's, which forgives least."""
    shell = shutil.which(SHELLS[request.param])
    if shell is None and request.param == "zsh":
        # bash and dash come with Debian, zsh does not: the script's dialect is proven by those two already.
        pytest.skip("NOT RUN under zsh, because it is not installed: apt-get install -y zsh")
    assert shell is not None, (
        f"the guest script must be tested under {request.param}: apt-get install -y {request.param}"
    )
    made = Guest(tmp_path, shell)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """Start the script as launchd does, whatever started the tests: a shell cannot trap what was ignored when it began."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGHUP)}
    for each, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(each, signal.default_int_handler if each is signal.SIGINT else signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)
