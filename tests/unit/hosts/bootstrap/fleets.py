"""Configurations for tests: `tart` and an agent like tart-kubelet, as the documented example has them."""

import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from paddock.hosts.bootstrap import CarveOut, EgressFirewall, FleetConfig, IngressGuard, LaunchdJob, Payload

AGENT_LABEL = "dev.tuist.tart-kubelet"
AGENT = b'#!/bin/sh\nif [ "$1" = healthz ]; then exit 0; fi\nwhile :; do sleep 60; done\n'
TART = b"#!/bin/sh\necho 2.32.1\n"


def tarball(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/").replace("_app", ".app"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def example(folder: Path, **changes: Any) -> FleetConfig:
    """A fleet with both payloads, whose files are in `folder`."""
    tart = tarball(tart_app__Contents__MacOS__tart=TART)
    (folder / "tart.tar.gz").write_bytes(tart)
    (folder / "tart-kubelet").write_bytes(AGENT)
    job = LaunchdJob(
        label=AGENT_LABEL,
        arguments=(
            "/usr/local/bin/tart-kubelet",
            "--node-name={node_name}",
            "--provider-id={provider_id}",
            "--kubeconfig={kubeconfig}",
            "--host-cpu={host_cpu}",
            "--host-memory-mb={host_memory_mb}",
            "--max-pods={max_pods}",
            "--node-labels={node_labels}",
        ),
        log="/var/log/tart-kubelet.log",
    )
    fleet = FleetConfig(
        payloads=(
            Payload(
                name="tart",
                source=str(folder / "tart.tar.gz"),
                sha256=hashlib.sha256(tart).hexdigest(),
                form="tarball",
                install_to="/usr/local/lib/tart",
                command="/usr/local/bin/tart",
                program="tart.app/Contents/MacOS/tart",
                health_check=("/usr/local/bin/tart", "--version"),
                swap_under_vms=False,
            ),
            Payload(
                name="tart-kubelet",
                source=str(folder / "tart-kubelet"),
                sha256=hashlib.sha256(AGENT).hexdigest(),
                install_to="/usr/local/bin/tart-kubelet",
                sign_ad_hoc=True,
                job=job,
                health_check=("/usr/local/bin/tart-kubelet", "healthz"),
                agent=True,
            ),
        ),
        egress_firewall=EgressFirewall(carve_outs=(CarveOut(destination="10.96.0.0/12", ports="4000"),)),
        node_labels=(("tuist.dev/fleet", "runners"),),
    )
    return dataclasses.replace(fleet, **changes)


GUARD = IngressGuard(allow=("203.0.113.7/32", "127.0.0.0/8"), second_path="100.64.0.0/10")
