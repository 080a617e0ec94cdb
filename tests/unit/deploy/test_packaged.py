"""What is packed for people without a checkout names the image in the registry that it was pushed to, or is not packed."""

import runpy
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml
from unit.deploy.rendering import ROOT

from paddock import __version__

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "hack" / "packaged.py"))
REGISTRY = "registry.example.com/team"
SOURCE = "https://git.example.com/team/paddock"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SCRIPT["chart"](REGISTRY, SOURCE, tmp_path_factory.mktemp("dist"))


def test_the_packed_chart_names_an_image_that_can_be_pulled(packed: Path):
    assert packed.name == f"paddock-{__version__}.tgz"
    assert SCRIPT["images"](packed) == {f"{REGISTRY}/paddock:{__version__}"}


def test_the_packed_chart_says_where_it_is_from_and_its_lint_finds_nothing(packed: Path):
    with helm_python.Chart.load(packed) as chart:
        about = chart.metadata
    assert (about["home"], about["sources"]) == (SOURCE, [SOURCE])
    assert about["icon"].startswith(f"{SOURCE}/raw/v{__version__}/")
    assert (ROOT / about["icon"].partition(f"/v{__version__}/")[2]).is_file()
    assert about["maintainers"]
    shown = helm_python.Chart.load(packed).values["monitoring"]["prometheusRule"]["runbookURL"]
    assert shown == f"{SOURCE}/blob/v{__version__}/docs/runbooks"
    said = helm_python.lint(str(packed), {}, strict=True)
    assert (said["messages"], said["errors"]) == ([], [])


def test_the_packed_files_for_clusterctl_take_that_image_unless_another_is_named(tmp_path: Path):
    SCRIPT["clusterctl"](REGISTRY, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (ROOT / "deploy" / "clusterctl").glob("*.yaml")
    }
    text = (tmp_path / "infrastructure-components.yaml").read_text(encoding="utf-8")
    assert f"image: ${{PADDOCK_IMAGE:={REGISTRY}/paddock:{__version__}}}\n" in text
    assert len(list(yaml.safe_load_all(text))) > 5


@pytest.mark.parametrize(
    "registry", ["", "paddock", "team/paddock", "registry.example.com", "https://registry.example.com/x", "a b.c/d"]
)
def test_what_is_no_registry_with_a_path_is_refused(registry: str, tmp_path: Path):
    for pack in ("chart", "clusterctl"):
        with pytest.raises(SCRIPT["UnnamedRegistryError"], match="nobody can pull"):
            SCRIPT[pack](*((registry, "", tmp_path) if pack == "chart" else (registry, tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_checkout_have_clusterctl_ask_for_the_image():
    assert "image: ${PADDOCK_IMAGE}\n" in (ROOT / "deploy" / "clusterctl" / "infrastructure-components.yaml").read_text(
        "utf-8"
    )
