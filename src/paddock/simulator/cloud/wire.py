"""How the simulated cloud writes its things as JSON: the fields of the real API."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from paddock.base.secrets import SEALED
from paddock.simulator.cloud.state import CloudState, Diagnosis, Host, Image, Offer, RegisteredKey, ServerHealth

__all__ = ["diagnosis_json", "image_json", "key_json", "offer_json", "products_json", "server_json", "stock_word"]


def moment_json(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def server_json(state: CloudState, host: Host, *, sealed: bool) -> dict[str, Any]:
    """One server. Sealed, as in the answer of every mutation, it shows no credentials."""
    vnc = f"vnc://{host.ssh_username}:{quote(host.password, safe='')}@{host.ip}:{host.vnc_port}"
    return {
        "applied_runner_configuration_ids": [host.id] if host.runner_mode else [],
        "commitment": {"cancelled": False, "type": host.commitment},
        "created_at": moment_json(host.created_at),
        "deletable_at": moment_json(host.deletable_at),
        "deletion_scheduled": host.deletion_scheduled,
        "delivered": host.delivered,
        "id": host.id,
        "ip": host.ip,
        "kext_enabled": host.kext_enabled,
        "name": host.name,
        "organization_id": host.organization_id,
        "os": image_json(state.images[host.image], embedded=True) if host.image in state.images else None,
        "project_id": host.project_id,
        "public_bandwidth_bps": host.public_bandwidth_bps,
        "runner_configuration": None,
        "ssh_username": host.ssh_username,
        "status": host.status,
        "sudo_password": SEALED if sealed else host.password,
        "tags": [],
        "type": host.type,
        "updated_at": moment_json(host.updated_at),
        "vnc_port": host.vnc_port,
        "vnc_url": SEALED if sealed else vnc,
        "vpc_status": "vpc_enabled" if host.vpc_enabled else "vpc_disabled",
        "zone": host.zone,
    }


def image_json(image: Image, *, embedded: bool = False) -> dict[str, Any]:
    supported = [
        {"fast_delivery_available": name in image.fast_for, "server_type": name} for name in image.server_types
    ]
    return {
        "compatible_server_types": image.server_types,
        "description": "",
        "family": image.family,
        "id": image.id,
        "image_url": "",
        "is_beta": image.is_beta,
        "label": image.label,
        "name": image.name,
        "release_notes_url": "",
        "supported_server_types": [] if embedded else supported,
        "tags": image.tags,
        "version": image.version,
        "xcode_version": image.xcode_version,
    }


def stock_word(stock: int) -> str:
    if stock <= 0:
        return "no_stock"
    return "low_stock" if stock < 5 else "high_stock"


def offer_json(state: CloudState, offer: Offer) -> dict[str, Any]:
    memory = "LPDDR5X" if offer.name.startswith("M4") else "LPDDR5"
    return {
        "name": offer.name,
        "cpu": {
            "name": offer.cpu,
            "core_count": offer.cores,
            "frequency": offer.frequency,
            "sockets": 1,
            "threads_per_core": 1,
        },
        "disk": {"capacity": offer.disk, "type": "SSD"},
        "memory": {"capacity": offer.memory, "type": memory},
        "gpu": {"count": offer.gpu},
        "npu": {"count": 16},
        "network": {
            "public_bandwidth_bps": offer.bandwidths[-1],
            "supported_bandwidth": offer.bandwidths,
            "default_public_bandwidth": offer.bandwidths[0],
        },
        "stock": stock_word(offer.stock),
        "minimum_lease_duration": "86400s",
        "default_os": image_json(state.images[offer.default_image], embedded=True),
    }


def products_json(offer: Offer, zone: str) -> list[dict[str, Any]]:
    """The two entries of the product catalogue for a type: by the month and by the hour."""
    # The catalogue writes fr-par-1 as par1 in its SKUs.
    place = zone.partition("-")[2].replace("-", "")
    by_month = (f"/apple-silicon/{offer.name.lower()}/monthly/run_{place}", "Monthly", "month", offer.monthly_euros, 0)
    by_hour = (f"/apple-silicon/{offer.name.lower()}/run_{place}", "Hourly", "hour", 0, offer.hourly_nanos)
    return [
        {
            "sku": sku,
            "service_category": "Bare Metal",
            "product_category": "Apple silicon",
            "product": offer.product,
            "variant": f"{offer.product} - {word} - {zone}",
            "description": f"{offer.product} - {word} - {zone}",
            "locality": {"zone": zone},
            "price": {"retail_price": {"currency_code": "EUR", "units": units, "nanos": nanos}},
            "properties": {"apple_silicon": {"range": offer.name.partition("-")[0], "server_type": offer.name}},
            "unit_of_measure": {"unit": unit, "size": 1},
            "status": "general_availability",
            "badges": [],
        }
        for sku, word, unit, units, nanos in (by_month, by_hour)
    ]


def key_json(key: RegisteredKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "public_key": key.public_key,
        "fingerprint": f"256 MD5:simulated {key.name} (ssh-ed25519)",
        "created_at": moment_json(key.created_at),
        "updated_at": moment_json(key.created_at),
        "organization_id": key.organization_id,
        "project_id": key.project_id,
        "disabled": key.disabled,
    }


def diagnosis_json(diagnosis: Diagnosis, health: ServerHealth, now: datetime) -> dict[str, Any]:
    if now < diagnosis.ready_at:
        return {
            "id": diagnosis.id,
            "status": "processing",
            "is_healthy": False,
            "supported_actions": [],
            "error_message": "",
            "health_details": None,
        }
    probes = {
        "is_server_alive": health.server_alive,
        "is_agent_alive": health.agent_alive,
        "is_mdm_alive": health.mdm_alive,
        "is_ssh_port_up": health.ssh_port_up,
        "is_vnc_port_up": health.vnc_port_up,
    }
    return {
        "id": diagnosis.id,
        "status": "completed",
        "is_healthy": all(probes.values()),
        "supported_actions": ["reboot_server", "reinstall_server"],
        "error_message": "",
        "health_details": {**probes, "last_checkin_date": moment_json(diagnosis.ready_at)},
    }
