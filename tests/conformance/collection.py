"""Finds the cases, so that a new one runs against every target without being named anywhere."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

Case = Callable[[Any], Awaitable[None]]


def every_case(package: ModuleType) -> list[Any]:
    """Every `test_…` of the package's modules as a pytest parameter; its id is the module and the sentence."""
    found: list[Any] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        for name, function in vars(importlib.import_module(f"{package.__name__}.{module}")).items():
            if name.startswith("test_") and inspect.iscoroutinefunction(function):
                found.append(pytest.param(function, id=f"{module}-{name.removeprefix('test_')}"))
    return found
