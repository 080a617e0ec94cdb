"""Quiet logs: hundreds of runs with disturbances on purpose would write more than they do."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True, scope="package")
def quiet_logs() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
