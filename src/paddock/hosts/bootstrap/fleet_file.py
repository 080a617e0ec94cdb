"""A fleet's configuration from a YAML file. `tart` and a node agent like tart-kubelet are the usual two payloads:

payloads:
- name: tart
  source: https://files.example/tart-2.32.1.tar.gz     # or a file, relative to this one
  sha256: 5f0c…                                         # shasum -a 256 FILE
  form: tarball
  install_to: /usr/local/lib/tart
  command: /usr/local/bin/tart                          # a small script that runs…
  program: tart.app/Contents/MacOS/tart                 # …this inside the folder
  health_check: [/usr/local/bin/tart, --version]
  swap_under_vms: false                                 # never replaced on a live host
- name: tart-kubelet
  source: tart-kubelet
  sha256: 9d1e…
  install_to: /usr/local/bin/tart-kubelet
  sign_ad_hoc: true
  agent: true
  job:
    label: dev.tuist.tart-kubelet
    arguments: [/usr/local/bin/tart-kubelet, "--node-name={node_name}", "--kubeconfig={kubeconfig}",
      "--provider-id={provider_id}", "--node-labels={node_labels}"]
    log: /var/log/tart-kubelet.log
egress_firewall:
  carve_outs:
  - {destination: 10.96.0.0/12, ports: "4000"}
ingress_guard:
  allow: [203.0.113.7/32]
  second_path: 100.64.0.0/10
virtual_machines:
  softnet: /usr/local/lib/softnet/softnet                 # runs as root; leave it out where machines need no Softnet
node_labels: {tuist.dev/runtime: tart}
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.plan import FleetConfig

__all__ = ["load_fleet", "parse_fleet"]


def load_fleet(path: Path) -> FleetConfig:
    """The configuration in a file. Raises PlanError, which names the field and the remedy; OSError if it is away."""
    fleet = parse_fleet(path.read_text(encoding="utf-8"))
    beside = tuple(
        payload if payload.fetched_by_host else replace(payload, source=str(path.parent / payload.source))
        for payload in fleet.payloads
    )
    return replace(fleet, payloads=beside)


def parse_fleet(text: str) -> FleetConfig:
    """The configuration in a text. What it does not name keeps its default; an unknown name is refused."""
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise PlanError("the fleet's configuration", f"it is no YAML: {error}") from None
    if not isinstance(content, dict):
        raise PlanError("the fleet's configuration", "expected a mapping, as in `payloads: […]`")
    if isinstance(labels := content.get("node_labels"), dict):
        content["node_labels"] = [[key, value] for key, value in labels.items()]
    try:
        fleet = msgspec.convert(content, FleetConfig)
    except msgspec.ValidationError as error:
        raise PlanError("the fleet's configuration", str(error)) from None
    _check_names(content, msgspec.to_builtins(fleet), "")
    return fleet


def _check_names(given: Any, known: Any, path: str) -> None:
    """A misspelt name would silently leave a default in force, such as no firewall rule at all."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if name not in known:
                raise PlanError(f"{path}{name}", f"this name is unknown; known are {', '.join(sorted(known))}")
            _check_names(value, known[name], f"{path}{name}.")
    elif isinstance(given, list) and isinstance(known, list | tuple):
        for index, (one, other) in enumerate(zip(given, known, strict=False)):
            _check_names(one, other, f"{path.removesuffix('.')}[{index}].")
