"""Writes what Cluster API's clusterctl installs into deploy/clusterctl (`make clusterctl`).

Everything is taken from the rendered chart, so that `clusterctl init` and `helm install` cannot come apart. What is decided at
the installation is a variable in clusterctl's own form.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import helm_python
import yaml

from paddock import __version__

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "deploy" / "clusterctl"
CHART: Final = ROOT / "deploy" / "chart"
NAMESPACE: Final = "paddock-system"
RELEASE: Final = "paddock"
PROVIDER: Final = {"cluster.x-k8s.io/provider": "infrastructure-scaleway-applesilicon"}
CONTRACT: Final = "v1beta2"

POOL: Final = "${PADDOCK_POOL_PREFIX:=tuist-pool-}"
ZONE: Final = "${SCALEWAY_ZONE:=fr-par-1}"
# Asked for, because nothing can be pulled from a checkout; a release writes its own image here (hack/packaged.py).
IMAGE: Final = "${PADDOCK_IMAGE}"
_OF_HELM: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by")
_FLEETS: Final = ("macosFleet", "runnersFleet", "buildersFleet")
# Rendered as these, and replaced in the text: Helm wants a name and a number, clusterctl its variables.
_CLUSTER: Final = "the-name-of-the-cluster"
_COUNT: Final = 987654321


def rendered(values: dict[str, Any], release: str, *templates: str) -> list[dict[str, Any]]:
    """The objects of these templates, without what only Helm needs. The image is replaced, or in none of them."""
    values = {**values, "image": {"repository": "paddock"}}
    with helm_python.Chart.load(CHART) as chart:
        texts = chart.render(values, name=release, namespace=NAMESPACE)
    documents = (each for name in templates for each in yaml.safe_load_all(texts[f"paddock/templates/{name}"]))
    return [_without_helm(each) for each in documents if each]


def _without_helm(each: dict[str, Any]) -> dict[str, Any]:
    """The object, and the Pods that it makes, without Helm's labels and annotations."""
    inner = each.get("spec", {}).get("template", {}) if each["kind"] == "Deployment" else {}
    for holder in (each, inner):
        meta = holder.get("metadata", {})
        for label in _OF_HELM:
            meta.get("labels", {}).pop(label, None)
        meta.get("annotations", {}).pop("helm.sh/resource-policy", None)
        if meta.get("annotations") == {}:
            del meta["annotations"]
    return each


def definitions() -> list[dict[str, Any]]:
    """What Helm installs before everything else."""
    with helm_python.Chart.load(CHART) as chart:
        return [yaml.safe_load(each["data"]) for each in chart.crds]


def components() -> str:
    """The namespace, the definitions, the rights and the operator."""
    values: dict[str, Any] = {name: {"machine": {"zone": ZONE}} for name in _FLEETS}
    values["macosFleet"]["adoptPoolPrefix"] = POOL
    # Empty unless given, and then orphaned hosts are reported only.
    # Clusters live in whichever namespaces their users choose, and clusterctl installs one provider for all of them.
    values["operator"] = {
        "allNamespaces": True,
        "extraArgs": ["--orphan-reclaim-claim-name-prefix=${PADDOCK_CLAIM_NAME_PREFIX:=}"],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "paddock-scaleway", "namespace": NAMESPACE},
        "stringData": {name: f"${{{name}}}" for name in ("SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID")},
    }
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *definitions(),
        *rendered(values, RELEASE, "rbac.yaml"),
        secret,
        *rendered(values, RELEASE, "operator.yaml", "network-policies.yaml"),
    ]
    for each in objects:
        each["metadata"]["labels"] = {**each["metadata"].get("labels", {}), **PROVIDER}
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                # clusterctl's contract: the controller's container has this name, by which its image can be overridden.
                container["name"], container["image"] = "manager", IMAGE
    return _written("What `clusterctl init --infrastructure scaleway-applesilicon` installs.", objects)


def cluster_template() -> str:
    """A cluster of Macs, for `clusterctl generate cluster`."""
    machine = {"type": "${SCALEWAY_MACHINE_TYPE:=M2-L}", "zone": ZONE, "os": "${MACOS_FAMILY:=Tahoe}"}
    fleet = {"enabled": True, "replicas": _COUNT, "adoptPoolPrefix": POOL, "machine": machine}
    objects = rendered({"clusterAPI": {"enabled": True}, "macosFleet": fleet}, _CLUSTER, "cluster-api.yaml")
    (template,) = [each for each in objects if each["kind"] == "ScalewayAppleSiliconMachineTemplate"]
    hashed, plain = template["metadata"]["name"], f"{_CLUSTER}-macos"
    for each in objects:
        # clusterctl puts everything into the namespace that it is asked for.
        del each["metadata"]["namespace"]
        kept = {key: value for key, value in each["metadata"]["labels"].items() if key.startswith("cluster.x-k8s.io/")}
        each["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": _CLUSTER, **kept}
    text = _written("A cluster of Macs: `clusterctl generate cluster NAME --worker-machine-count 2`.", objects)
    text = text.replace(hashed, plain).replace(str(_COUNT), "${WORKER_MACHINE_COUNT}")
    return text.replace(_CLUSTER, "${CLUSTER_NAME}")


def metadata() -> str:
    """Which release series follow which contract of Cluster API."""
    major, minor = __version__.split(".")[:2]
    series = {"major": int(major), "minor": int(minor), "contract": CONTRACT}
    document = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": [series]}
    return _written("Read by clusterctl.", [document])


def _written(what: str, objects: list[dict[str, Any]]) -> str:
    head = f"# {what} Written by `make clusterctl` from the chart.\n"
    return head + "---\n" + "---\n".join(yaml.safe_dump(each, sort_keys=False, width=1000) for each in objects)


def files() -> dict[str, str]:
    """The text of every file, by its name."""
    return {
        "metadata.yaml": metadata(),
        "infrastructure-components.yaml": components(),
        "cluster-template.yaml": cluster_template(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER)
    into = parser.parse_args().into
    into.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (into / name).write_text(text, encoding="utf-8")
        print(into / name)


if __name__ == "__main__":
    main()
