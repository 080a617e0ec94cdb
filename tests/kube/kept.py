"""What takes long to make is made once for everything that decides it, and kept in the user's cache beside the programs.

As `hack/kube/build.py` keeps programs, whose lock and folder these are: a file appears by one rename when it is complete, and
a second run that wants it waits for the first one instead of making it, too.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

__all__ = ["SOURCES", "TREE", "kept"]

TREE: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = tuple(
    TREE / name
    for name in ("src", "hack/agent-bundle", "docs/runbooks", "pyproject.toml", "uv.lock", "README.md", "LICENSE")
)
"""What wheel and bundle are made from."""
# Every change of the tree makes others: the last of each are kept, and who uses one has a copy.
_KEPT = 3


def kept(name: str, make: Callable[[Path], object], into: Path, *, of: Iterable[str | Path]) -> Path:
    """A copy in the folder `into` of the file `name` that `make` writes; it is made when nothing of `of` was seen before."""
    machinery = _machinery()
    root = machinery.cache_root(os.environ).parent / "made-for-tests"
    root.mkdir(parents=True, exist_ok=True)
    target = root / f"{_digest(of)}-{name}"
    with machinery.lock(root / f"{name}.lock"):
        if not target.exists():
            # Beside the target, so that the rename stays on one file system.
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=root) as scratch:
                made = Path(scratch) / name
                make(made)
                made.rename(target)
        target.touch()
        for old in sorted(root.glob(f"*-{name}"), key=lambda each: -each.stat().st_mtime)[_KEPT:]:
            old.unlink()
        return Path(shutil.copy2(target, into / name))


def _digest(of: Iterable[str | Path]) -> str:
    """A folder counts with the names and contents of all its files, but for what Python compiles."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {sys.base_prefix} {sys.version}".encode())
    digest.update(Path(__file__).read_bytes())
    for each in of:
        if isinstance(each, str):
            digest.update(each.encode() + b"\0")
            continue
        files = [each] if each.is_file() else sorted(path for path in each.rglob("*") if path.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                data = file.read_bytes()
                digest.update(f"{file.relative_to(TREE)} {len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def _machinery() -> Any:
    """A script of its own, which no path of modules leads to."""
    spec = importlib.util.spec_from_file_location("paddock_kube_build", TREE / "hack" / "kube" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for their own module
    spec.loader.exec_module(module)
    return module
