"""`python -m agent_bundle build|check`: what `make bundle` and the Dockerfile call."""

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path

from agent_bundle.build import ENTRY, TARGETS, BuildError, build
from agent_bundle.check import problems_of
from agent_bundle.interpreter import InterpreterError, fetched, from_archive, from_running

_TREE = Path(__file__).resolve().parents[3]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent_bundle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build", help="build one bundle and check it")
    making.add_argument("--target", choices=sorted(TARGETS), default="darwin-arm64")
    making.add_argument(
        "--interpreter",
        default="",
        help="archive (path or https URL), or `running` on Linux; for Macs the pinned one, unless given",
    )
    making.add_argument("--sha256", default="", help="the archive's SHA-256; needed for a URL")
    making.add_argument("--out", type=Path, default=None)
    making.add_argument("--uv", default="uv")
    making.add_argument("--entry", default=ENTRY)
    looking = commands.add_parser("check", help="check a bundle that exists")
    looking.add_argument("bundle", type=Path)
    looking.add_argument("--target", choices=sorted(TARGETS), default="darwin-arm64")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    if given.command == "check":
        return _report(problems_of(given.bundle, given.target))
    out = given.out or _TREE / "dist" / f"paddock-node-agent-{given.target}.tar.gz"
    if not given.interpreter and given.target == "darwin-arm64":
        known = tomllib.loads((_TREE / "src" / "paddock" / "pins.toml").read_text(encoding="utf-8"))["macs"]["python"]
        given.interpreter, given.sha256 = known["url"], known["sha256"]
    if not given.interpreter:
        print(
            "agent_bundle: no interpreter: give --interpreter with a python-build-standalone install_only_stripped archive"
            f" for {given.target} (a path, or an https URL with --sha256)",
            file=sys.stderr,
        )
        return 2
    if "://" in given.interpreter and not given.sha256:
        print("agent_bundle: an interpreter by URL needs --sha256", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(given.interpreter)
            if "://" in given.interpreter:
                archive = fetched(given.interpreter, given.sha256, Path(scratch))
            built = build(
                _TREE,
                given.target,
                out,
                from_running
                if given.interpreter == "running"
                else lambda folder: from_archive(archive, given.sha256, folder),
                uv=given.uv,
                entry=given.entry,
                portable=given.interpreter != "running",
            )
    except (BuildError, InterpreterError) as error:
        print(f"agent_bundle: {error}", file=sys.stderr)
        return 1
    print(f"{built.path.name}: {built.size / 2**20:.1f} MB, sha256 {built.sha256}")
    return _report(problems_of(out, given.target, foreign=(str(_TREE),)))


def _report(problems: list[str]) -> int:
    for problem in problems:
        print(f"agent_bundle: {problem}", file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
