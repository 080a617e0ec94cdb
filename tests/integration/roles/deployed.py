"""The roles as `make roles` writes them."""

import runpy
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "OPERATOR_ROLES", "admission", "files"]

_ROOT = Path(__file__).resolve().parents[3]
_SCRIPT: dict[str, Any] = runpy.run_path(str(_ROOT / "hack" / "roles.py"))
FOLDER = _ROOT / "deploy" / "rbac"
OPERATOR_ROLES = _SCRIPT["operator_roles"]("default", "default")
files = _SCRIPT["files"]
admission = _SCRIPT["admission"]
