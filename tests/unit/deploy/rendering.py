"""The chart, rendered by the real Helm."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "chart"
RELEASE = "tuist-tuist"
NAMESPACE = "macs"

FULL: dict[str, Any] = {
    "image": {"repository": "registry.example.com/paddock"},
    "macosFleet": {
        "enabled": True,
        "replicas": 2,
        "orphanReclaim": {"activeReclaim": True},
        "tart": {"url": "https://files.example/tart.tar.gz", "sha256": "a" * 64, "version": "2.35.0"},
        "softnet": {"url": "https://files.example/softnet.tar.gz", "sha256": "b" * 64, "version": "0.1.0"},
    },
    "runnersFleet": {"enabled": True},
    "fleetConfig": "firewall: {}\n",
    "operator": {"apiServerURL": "https://api.example.com:6443"},
    "dispatch": {
        "enabled": True,
        "runnerURL": "https://runners.example.com",
        "limits": {"acme": {"macos": {"vcpus": 12, "memoryMB": 28672}}},
        "reportOnly": ["orphaned_stamped_pod"],
        "ingress": {"enabled": True, "host": "runners.example.com", "className": "nginx", "tlsSecretName": "tls"},
    },
    "runners": {"namespace": "jobs"},
    "github": {"apiURL": "https://github.example.com/api/v3", "webhooks": True},
    "runnerPools": {
        "macos": {
            "image": "example.com/runner:1",
            "fleetSelector": "macos",
            "dispatchLabel": "macos",
            "runnerLabels": ["self-hosted"],
            "replicas": 2,
            "autoscaling": {"enabled": True, "maxReplicas": 9},
        }
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"team": "ci"}},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "imagePullSecrets": [{"name": "registry"}],
}
"""Every optional part at once."""


def templates(values: dict[str, Any] | None = None, release: str = RELEASE) -> dict[str, str]:
    """The text of every template, by its file name. Raises what Helm says."""
    return _templates(json.dumps(values or {}, sort_keys=True), release)


@cache
def _templates(values: str, release: str) -> dict[str, str]:
    with helm_python.Chart.load(CHART) as chart:
        given = json.loads(values)
        # The one value that a checkout's chart cannot do without.
        given["image"] = {"repository": "registry.example.com/paddock", **given.get("image", {})}
        # As `helm install` does before it renders; `render` alone does not look at the schema.
        chart.validate_schema(given)
        shown = chart.render(given, name=release, namespace=NAMESPACE)
    return {path.rpartition("/")[2]: text for path, text in shown.items()}


@cache
def definitions() -> list[dict[str, Any]]:
    """What Helm installs before it renders anything, and never touches again."""
    with helm_python.Chart.load(CHART) as chart:
        return [yaml.load(each["data"], yaml.CSafeLoader) for each in chart.crds]


def objects(values: dict[str, Any] | None = None, release: str = RELEASE) -> list[dict[str, Any]]:
    """Everything that a first installation applies, the definitions first."""
    return _objects(json.dumps(values or {}, sort_keys=True), release)


@cache
def _objects(values: str, release: str) -> list[dict[str, Any]]:
    shown = _templates(values, release)
    rendered = [
        document
        for name, text in shown.items()
        if name.endswith(".yaml")
        for document in yaml.load_all(text, yaml.CSafeLoader)
        if document
    ]
    return [*definitions(), *rendered]


def of_kind(kind: str, values: dict[str, Any] | None = None, release: str = RELEASE) -> list[dict[str, Any]]:
    return [each for each in objects(values, release) if each["kind"] == kind]


def arguments(component: str, values: dict[str, Any] | None = None, release: str = RELEASE) -> list[str]:
    """What the container of a Deployment is started with."""
    (found,) = [
        each for each in of_kind("Deployment", values, release) if each["metadata"]["name"] == f"{release}-{component}"
    ]
    return found["spec"]["template"]["spec"]["containers"][0]["args"]
