"""One authority for the tests of the Mac's side."""

import pytest
from doubles.clocks import NOON

from paddock.base.certificates import new_authority

__all__ = ["authority"]


@pytest.fixture(scope="module")
def authority() -> bytes:
    return new_authority(NOON).certificate
