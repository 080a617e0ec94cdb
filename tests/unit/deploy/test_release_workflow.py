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


def test_every_action_is_named_by_a_version():
    named = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert named
    assert not [each for each in named if each.rpartition("@")[2] in ("", "main", "master", "latest")]
