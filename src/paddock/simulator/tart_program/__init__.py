"""A stand-in for `tart` on Linux: a program for a PATH, with real processes, real locks and guests that run real scripts.

It imports the standard library alone and runs under `python -S -E`, so that a call costs tens of milliseconds. Its guest
is a folder; `exec` runs commands in it, and the shipped guest script runs there unchanged. What it simulates is Tart, the
kernel's limit of two, and Apple's guest; the world around it (registry, session, faults) is `TART_HOME/simulated/world.json`:
see `store.World`.
"""

import sys
from pathlib import Path

__all__ = ["install"]


def install(folder: Path) -> Path:
    """Put `tart` into a folder of a PATH. The process table shows `tart run NAME`, as on a Mac."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "tart"
    part = folder / f".tart.{id(program)}"
    # At the end of the path: no module beside this package may stand before one of the standard library.
    part.write_text(
        f"#!{sys.executable} -SE\n"
        "import sys\n"
        f"sys.path.append({str(Path(__file__).parent.parent)!r})\n"
        "from tart_program.commands import main\n"
        "sys.exit(main(sys.argv[1:]))\n",
        encoding="utf-8",
    )
    part.chmod(0o755)
    part.rename(program)
    return program
