"""Writes the commits of src/paddock/pins.toml into the workflows (`make pins`), where GitHub wants them in the text.

It needs nothing but Python.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_USES: Final = re.compile(r"(?<=uses: )([\w.-]+/[\w./-]+)@\S+(?: # \S+)?$", re.MULTILINE)


def pinned(text: str, actions: dict[str, dict[str, str]]) -> str:
    """The workflow with every action by its commit, its version beside it; KeyError names one that is not pinned."""

    def one(found: re.Match[str]) -> str:
        pin = actions[found[1]]
        return f"{found[1]}@{pin['commit']} # {pin['version']}"

    return _USES.sub(one, text)


def main() -> None:
    actions = tomllib.loads((ROOT / "src" / "paddock" / "pins.toml").read_text(encoding="utf-8"))["actions"]
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        path.write_text(pinned(path.read_text(encoding="utf-8"), actions), encoding="utf-8")


if __name__ == "__main__":
    main()
