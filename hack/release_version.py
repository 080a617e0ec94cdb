"""Whether everything that names the version names the same one, and what the changelog says of it.

`release_version.py vX.Y.Z` prints `version=X.Y.Z` if tag, package, chart, clusterctl's files, changelog and the ledger's
recording agree, and else says who does not. With `--notes` it prints the changelog's section instead. It needs nothing but
Python, so that a release needs nothing installed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def found(path: str, pattern: str) -> str:
    """What the file says, or the empty text."""
    match = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else ""


def versions() -> dict[str, str]:
    """Who says which version; the places that only name a series are completed by the package's own."""
    package = found("src/paddock/__init__.py", r'^__version__ = "(.+)"$')
    series = ".".join(package.split(".")[:2])
    clusterctl = ".".join(
        found("deploy/clusterctl/metadata.yaml", rf"^\W*{part}: (\d+)$") for part in ("major", "minor")
    )
    recording = ROOT / "tests" / "integration" / "migrations" / "released" / f"{package}.sql"
    return {
        "src/paddock/__init__.py": package,
        "deploy/chart/Chart.yaml, version": found("deploy/chart/Chart.yaml", r"^version: (\S+)$"),
        "deploy/chart/Chart.yaml, appVersion": found("deploy/chart/Chart.yaml", r'^appVersion: "(\S+)"$'),
        "deploy/clusterctl/metadata.yaml": package if clusterctl == series else f"{clusterctl}.*",
        "CHANGELOG.md, newest release": found("CHANGELOG.md", r"^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$"),
        "the ledger's recording (make ledger-recording)": package if recording.exists() else "none",
    }


def notes(version: str) -> str:
    """The changelog's section of a version, or the empty text."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|^\[[^\]]+\]: |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return match[1].strip() if match else ""


def disagreements(tag: str) -> list[str]:
    """In words who does not say what the tag says; empty where all agree."""
    wanted = tag.removeprefix("v")
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return [f"the tag {tag} is not of the form vX.Y.Z"]
    wrong = [
        f"{who} says {said or 'nothing'}, the tag says {wanted}" for who, said in versions().items() if said != wanted
    ]
    return wrong or ([] if notes(wanted) else [f"CHANGELOG.md has nothing under {wanted}"])


def main(tag: str, *options: str) -> int:
    wrong = disagreements(tag)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    if not wrong:
        print(notes(tag.removeprefix("v")) if "--notes" in options else f"version={tag.removeprefix('v')}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
