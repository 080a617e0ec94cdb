"""The cases: each states one thing that a Kubernetes API does, whoever serves it.

A case is an async function `test_…(api)` in a module of this folder. `every_case` finds them all, so that a new one
runs against every target without being named anywhere.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Any

from conformance.target import Api

Case = Callable[[Api], Awaitable[None]]


def every_case() -> list[Any]:
    """Every case as a pytest parameter whose id is its module and its sentence."""
    import pytest

    found = []
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for name, function in vars(importlib.import_module(f"{__name__}.{module}")).items():
            if name.startswith("test_") and inspect.iscoroutinefunction(function):
                found.append(pytest.param(function, id=f"{module}-{name.removeprefix('test_')}"))
    return found
