"""What a release brings with it, as far as the workflow says."""

from typing import Any

import yaml
from unit.deploy.rendering import ROOT

JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]


def uses(job: str, action: str) -> list[dict[str, Any]]:
    return [step.get("with", {}) for step in JOBS[job]["steps"] if step.get("uses", "").startswith(f"{action}@")]


def test_what_is_released_has_provenance_and_an_sbom():
    for job in ("packages", "image", "chart"):
        assert uses(job, "actions/attest-build-provenance"), job
        assert JOBS[job]["permissions"]["attestations"] == "write"
    (sbom,) = uses("packages", "actions/attest-sbom")
    assert (sbom["subject-path"], sbom["sbom-path"]) == ("dist/*", "paddock.spdx.json")
    (image,) = uses("image", "docker/build-push-action")
    assert (image["sbom"], image["provenance"]) == (True, "mode=max")


def test_the_image_is_built_on_a_base_by_digest():
    (image,) = uses("image", "docker/build-push-action")
    assert "BASE_DIGEST=" in image["build-args"]


def scripts(job: str) -> str:
    return "\n".join(step.get("run", "") for step in JOBS[job]["steps"])


def test_the_image_has_the_bundle_for_macs_and_the_bundle_is_a_file_of_the_release():
    (image,) = uses("image", "docker/build-push-action")
    assert "AGENT_BUNDLE" not in image["build-args"], "what the Dockerfile does by itself is to fail without one"
    assert "make bundle\nmv" in scripts("packages").replace("mkdir bundle\n", "")
    (kept,) = uses("packages", "actions/upload-artifact")
    assert "bundle/" in kept["path"].split()
    assert "release/packages/bundle/*" in scripts("publish")
    (index,) = uses("publish", "pypa/gh-action-pypi-publish")
    assert index["packages-dir"] == "release/packages/dist/", "an index of packages takes no bundle"


def test_the_chart_and_the_files_for_clusterctl_are_packed_with_the_registry_of_the_image():
    (image,) = uses("image", "docker/build-push-action")
    assert image["tags"].startswith("${{ vars.REGISTRY }}/paddock:")
    assert JOBS["chart"]["env"]["REGISTRY"] == "${{ vars.REGISTRY }}"
    assert 'make chart REGISTRY="$REGISTRY"' in scripts("chart")
    assert "release/chart/clusterctl/*.yaml" in scripts("publish")
    assert "deploy/clusterctl" not in scripts("publish")
