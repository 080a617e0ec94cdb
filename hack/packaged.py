"""Packs the chart and clusterctl's files for people who have no checkout: both name the image in the registry that it is pushed to.

In the checkout neither names one, because nothing can be pulled until somebody has pushed it: there the chart and clusterctl ask for it.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import helm_python
import yaml

from paddock import __version__

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "deploy" / "chart"
CLUSTERCTL: Final = ROOT / "deploy" / "clusterctl"
# A first part without a dot and a port is no host: it would be looked for at Docker Hub.
_REGISTRY: Final = re.compile(r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?(?:/[a-z0-9][a-z0-9._-]*)+")
_RENDERED: Final = {
    "macosFleet": {"enabled": True},
    "dispatch": {"enabled": True, "ingress": {"enabled": True, "host": "a.example"}},
}


class UnnamedRegistryError(Exception):
    """Whoever installs what is packed must find the image."""


def image_of(registry: str) -> str:
    """The image's name without its tag."""
    if not _REGISTRY.fullmatch(registry):
        raise UnnamedRegistryError(
            f"REGISTRY={registry!r} is no host with a path, such as registry.example.com/team: the chart would name an image that "
            "nobody can pull"
        )
    return f"{registry}/paddock"


def chart(registry: str, source: str, into: Path) -> Path:
    """The packed chart."""
    image = image_of(registry)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "paddock"
        shutil.copytree(CHART, folder)
        _replace(folder / "values.yaml", '\n  repository: ""\n', f"\n  repository: {image}\n")
        if source:
            about = {
                "home": source,
                "sources": [source],
                "icon": f"{source}/raw/v{__version__}/src/paddock/web/static/paddock.svg",
            }
            _replace(
                folder / "values.yaml",
                "runbookURL: docs/runbooks}",
                f"runbookURL: {source}/blob/v{__version__}/docs/runbooks}}",
            )
            with (folder / "Chart.yaml").open("a", encoding="utf-8") as file:
                yaml.safe_dump(about, file)
        into.mkdir(parents=True, exist_ok=True)
        packed = Path(helm_python.package(folder, destination=into))
    named = images(packed)
    if not named or any(not each.startswith(f"{image}:") for each in named):
        raise UnnamedRegistryError(
            f"{packed.name} names {', '.join(sorted(named)) or 'no image'}, expected was {image}"
        )
    return packed


def images(packed: Path) -> set[str]:
    """What the Pods of a release with the chart's own values are made from."""
    with helm_python.Chart.load(packed) as loaded:
        texts = loaded.render(_RENDERED, name="paddock", namespace="paddock")
    return set(re.findall(r'^\s+image: "?([^"\s]+)"?$', "\n".join(texts.values()), re.MULTILINE))


def clusterctl(registry: str, into: Path) -> None:
    """The files that clusterctl reads, with the image that it takes unless another is named."""
    image = image_of(registry)
    into.mkdir(parents=True, exist_ok=True)
    for path in CLUSTERCTL.glob("*.yaml"):
        shutil.copyfile(path, into / path.name)
    _replace(into / "infrastructure-components.yaml", "${PADDOCK_IMAGE}", f"${{PADDOCK_IMAGE:={image}:{__version__}}}")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise UnnamedRegistryError(f"{path.name} has {text.count(old)} times {old.strip()!r}, where one image is named")
    path.write_text(text.replace(old, new), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registry", required=True, help="host and path that the image is pushed under")
    parser.add_argument("--source", default="", help="https address of the project")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    helm_python.disable_logging()
    try:
        print(chart(given.registry, given.source, given.into))
        clusterctl(given.registry, given.into / "clusterctl")
    except UnnamedRegistryError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
