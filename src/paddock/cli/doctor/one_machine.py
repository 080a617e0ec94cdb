"""What real Macs need of a `paddock up`: two addresses that they reach with TLS, an agent, Tart, and a GitHub App for jobs."""

import asyncio
import ipaddress
import json
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paddock.cli.doctor.check import Check, bad, good
from paddock.hosts.bootstrap.agent_bundle import DEFAULT_BUNDLE, SOFTNET_MISSING, missing_parts

__all__ = ["one_machine", "told_by"]

_ADVERTISE = "start `paddock up` with --advertise-address and the name or address by which Macs reach this machine"
_SECONDS = 5.0


def told_by(lines: Sequence[str]) -> dict[str, Any]:
    """What the `paddock up` of these lines tells real Macs; nothing where it is simulated, or there is none."""
    try:
        return json.loads(lines[1]).get("macs") or {}
    except (IndexError, ValueError):
        return {}


async def one_machine(told: Mapping[str, Any], authority: str) -> list[Check]:
    """`authority` is the PEM text of the certificate authority that Macs are given."""
    missing = missing_parts(None, None, Path(DEFAULT_BUNDLE))
    checks = [
        await _address("Macs to the API", str(told.get("api", "")), authority),
        await _address("Macs to dispatch", str(told.get("dispatch", "")), authority),
        good("node agent", "Macs get one") if told.get("agent") else bad("node agent", "Macs get none", missing["--agent-bundle"]),
        good("Tart", "Macs are told where to get it") if told.get("tart") else bad("Tart", "nobody said where Macs get it", missing["--tart-version"]),
        good("Softnet", "Macs run VMs behind it" if told.get("softnet") else SOFTNET_MISSING),
    ]  # fmt: skip
    if not told.get("github"):
        fix = "set PADDOCK_GITHUB_APP_ID, PADDOCK_GITHUB_PRIVATE_KEY_FILE and PADDOCK_GITHUB_WEBHOOKS=off (or the webhook's secret), and start it anew"
        checks.append(bad("GitHub App", "`paddock up` was started without one, so no job is taken", fix))
    return checks


async def _address(about: str, url: str, authority: str) -> Check:
    host, port = urlsplit(url).hostname or "", urlsplit(url).port or 443
    if not host:
        return bad(about, "they are told no address, and loopback is reached by nobody else", _ADVERTISE)
    if _is_loopback(host):
        return bad(about, f"{url} is this machine's loopback, which no Mac reaches", _ADVERTISE)
    try:
        await asyncio.wait_for(_handshake(host, port, authority), _SECONDS)
    except (OSError, TimeoutError) as error:
        why = str(error) or "no answer"
        fix = f"open port {port} in this machine's firewall, and check that {host} leads to this machine"
        return bad(about, f"{url} does not answer with TLS from here: {why}", fix)
    return good(about, f"{url} answers with TLS from here")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _handshake(host: str, port: int, authority: str) -> None:
    """A handshake is enough: whoever has the key of that certificate is the one that Macs are to find."""
    tls = ssl.create_default_context()
    if authority:
        tls.load_verify_locations(cadata=authority)
    _, writer = await asyncio.open_connection(host, port, ssl=tls)
    writer.close()
