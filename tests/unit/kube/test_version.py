"""Paddock names one Kubernetes version, because a kubelet may not be newer than its API server."""

import re
from pathlib import Path
from typing import Any

from paddock import kube
from paddock.cli.node_agent import command as node_agent
from paddock.embedded.api.http import ApiServer
from paddock.kube.version import KUBERNETES

SOURCE = Path(kube.__file__).parents[1]


def test_the_embedded_api_and_its_nodes_say_the_same():
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    told = ApiServer._version_info(Any)  # pyright: ignore[reportArgumentType]
    assert (told["major"], told["minor"], told["gitVersion"]) == (major, minor, f"{KUBERNETES}+paddock")
    (reported,) = [each.default for each in node_agent.params if each.name == "kubelet_version"]
    assert reported == f"{KUBERNETES}-paddock"


def test_it_is_written_in_one_place():
    said = [path for path in SOURCE.rglob("*.py") if re.search(r"v1\.\d\d\.\d", path.read_text(encoding="utf-8"))]
    assert said == [SOURCE / "kube" / "version.py"]
