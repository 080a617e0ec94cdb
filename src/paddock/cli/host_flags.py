"""The flags of the host subsystem, the same for `paddock operator` and `paddock up`."""

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from paddock.hosts.bootstrap import FleetConfig
    from paddock.hosts.bootstrap.agent_bundle import AgentBundle
    from paddock.hosts.bootstrap.pins import Archive
    from paddock.hosts.settings import HostSettings

__all__ = ["Duration", "fleet_config", "host_flags", "host_settings", "missing_from_fleet", "optional_for_fleet"]

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType):
    """`15m`, `90s`, `1h30m`: as Go programs write it, in seconds here."""

    name = "duration"

    def __init__(self, minimum: str = "0s") -> None:
        """What is repeated needs a `minimum`: without a pause it is a loop that does nothing else."""
        self._minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        seconds = self._seconds(value, param, ctx)
        if seconds < self._seconds(self._minimum, param, ctx):
            self.fail(f"{value!r} is too short: give {self._minimum} or more", param, ctx)
        return seconds

    def _seconds(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is not a duration such as 15m, 90s or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Euros(click.ParamType):
    """An amount of money, exact."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount < 0:
            self.fail(f"{value!r} is not an amount such as 50 or 12.50", param, ctx)
        return amount


def host_flags(pool_prefix: str = "") -> Callable[[F], F]:
    """Adds the flags to a command; `host_settings` turns them into values. `pool_prefix` is the default pool, if any."""

    def decorate(command: F) -> F:
        for option in reversed(_options(pool_prefix)):
            command = option(command)
        return command

    return decorate


def _options(pool_prefix: str) -> list[Callable[[Any], Any]]:
    return [
        click.option("--default-adopt-pool-prefix", default=pool_prefix, show_default=bool(pool_prefix), help="Cloud names of free hosts start with this, unless a machine says otherwise."),
        click.option("--orphan-reclaim-zones", default="fr-par-1", show_default=True, help="Zones that are always swept, separated by commas; those of the machines are swept anyway."),
        click.option("--orphan-reclaim-claim-name-prefix", default="", help="Reclaim orphaned hosts whose name starts with this; without it they are only reported."),
        click.option("--orphan-reclaim-interval", type=Duration("1s"), default="15m", show_default=True, help="How often the cloud is swept for orphaned hosts."),
        click.option("--bootstrap-reboot-after", type=click.IntRange(0), default=3, show_default=True, help="Reboot a host once after this many failed bootstraps; 0 never."),
        click.option("--bootstrap-max-attempts", type=click.IntRange(0), default=8, show_default=True, help="Give a host back after this many failed bootstraps; 0 never."),
        click.option("--order-cap", type=click.IntRange(0), default=10, show_default=True, help="Rent at most this many servers in a zone in 24 hours, for machines with source Order; 0 for no limit."),
        click.option("--order-budget", type=Euros(), default=None, help="Spend at most this much in a zone in 24 hours on such servers, in euros; each costs a day at least."),
        click.option("--retire-after-quarantines", type=click.IntRange(0), default=0, show_default=True, help="Terminate a host that was quarantined so often, once it is free and past its billing floor; 0 never."),
        click.option("--fleet-config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="YAML file: what is put on every Mac (payloads, firewall, agent)."),
        click.option("--agent-bundle", type=click.Path(dir_okay=False, path_type=Path), envvar="PADDOCK_BUNDLE", help="The node agent's bundle, for a fleet without --fleet-config; where the image has it, unless given."),
        click.option("--agent-target", default="darwin-arm64", envvar="PADDOCK_BUNDLE_TARGET", hidden=True, help="The machine that the bundle must be for; another one than a Mac stands in for it in tests."),
        click.option("--ssh-port", type=click.IntRange(1, 65535), default=22, show_default=True, help="The port of the Macs' SSH servers."),
        click.option("--tart-version", default="", envvar="PADDOCK_TART_VERSION", help="The Tart that Macs run VMs with, for a fleet without --fleet-config: the release that this Paddock knows, or with --tart-url any other."),
        click.option("--accept-tart-licence", is_flag=True, envvar="PADDOCK_ACCEPT_TART_LICENCE", help="You accept the licence of the Tart that this Paddock knows, which its makers give: free for internal use, not for a competing product."),
        click.option("--tart-url", default="", envvar="PADDOCK_TART_URL", help="https address of another Tart release's archive."),
        click.option("--tart-sha256", default="", envvar="PADDOCK_TART_SHA256", help="The SHA-256 of that archive."),
        click.option("--node-logs-port", type=click.IntRange(0, 65535), default=0, help="Macs serve `kubectl logs` on this port (kubelets use 10250), for an API server that can dial them; 0 turns it off."),
        click.option("--softnet-version", default="", envvar="PADDOCK_SOFTNET_VERSION", help="The Softnet that keeps the VMs of a Mac apart, for a fleet without --fleet-config: the release that this Paddock knows, or with --softnet-url any other. Without it a Mac runs jobs of one account at a time."),
        click.option("--softnet-url", default="", envvar="PADDOCK_SOFTNET_URL", help="https address of another Softnet release's archive."),
        click.option("--softnet-sha256", default="", envvar="PADDOCK_SOFTNET_SHA256", help="The SHA-256 of that archive."),
        click.option("--namespace", default="default", show_default=True, help="Where the Host objects live."),
        click.option("--watch-namespace", "watch_namespaces", multiple=True, help="Only work on machines, fleets and clusters of this namespace; may be repeated. Without it, of all."),
        click.option("--watch-filter", default="", help="Only look at machines with the label cluster.x-k8s.io/watch-filter of this value."),
    ]  # fmt: skip


def host_settings(flags: dict[str, Any], **more: Any) -> "HostSettings":
    """The flags as values; UsageError names the flag that is wrong."""
    from paddock.hosts.names import problem_with_prefix
    from paddock.hosts.recovery import Tiers
    from paddock.hosts.settings import HostSettings

    prefix = flags["default_adopt_pool_prefix"]
    if problem := problem_with_prefix(prefix):
        raise click.UsageError(f"--default-adopt-pool-prefix: {problem}")
    claim_prefix = flags["orphan_reclaim_claim_name_prefix"]
    if claim_prefix and prefix and (prefix.startswith(claim_prefix) or claim_prefix.startswith(prefix)):
        raise click.UsageError(
            f"--orphan-reclaim-claim-name-prefix {claim_prefix!r} and the pool prefix {prefix!r} must not overlap: "
            "free hosts would look orphaned"
        )
    if claim_prefix and not prefix:
        raise click.UsageError(
            "--orphan-reclaim-claim-name-prefix needs --default-adopt-pool-prefix: the pool to go back to"
        )
    return HostSettings(
        namespace=flags["namespace"],
        default_adopt_pool_prefix=prefix,
        zones=tuple(zone.strip() for zone in flags["orphan_reclaim_zones"].split(",") if zone.strip()),
        claim_name_prefix=claim_prefix,
        reclaim_interval=flags["orphan_reclaim_interval"],
        tiers=Tiers(reboot_after=flags["bootstrap_reboot_after"], max_attempts=flags["bootstrap_max_attempts"]),
        watch_filter=flags["watch_filter"],
        order_cap=flags["order_cap"],
        order_budget=flags["order_budget"],
        retire_after_quarantines=flags["retire_after_quarantines"],
        watch_namespaces=tuple(flags["watch_namespaces"]),
        **more,
    )


def fleet_config(flags: dict[str, Any]) -> "FleetConfig":
    """What is put on every Mac: the file's, or our agent and Tart; UsageError names what is wrong in it."""
    from paddock.hosts.bootstrap import PlanError
    from paddock.hosts.bootstrap.agent_bundle import default_fleet
    from paddock.hosts.bootstrap.fleet_file import load_fleet

    path = flags["fleet_config"]
    if path is not None:
        try:
            return load_fleet(path)
        except (OSError, PlanError) as error:
            raise click.UsageError(f"--fleet-config {path}: {error}") from error
    bundle, tart, softnet = _bundle(flags), _archive(flags, "tart"), _archive(flags, "softnet")
    try:
        return default_fleet(
            bundle,
            tart,
            softnet=softnet,
            dispatch_url=flags.get("runner_dispatch_url") or flags.get("dispatch_url") or "",
            logs_port=flags.get("node_logs_port") or 0,
        )
    except PlanError as error:
        raise click.UsageError(f"--tart-url: {error}") from error


def missing_from_fleet(flags: dict[str, Any]) -> dict[str, str]:
    """By flag, what keeps a fleet without a fleet file from running jobs, and the remedy; nothing with a fleet file."""
    from paddock.hosts.bootstrap.agent_bundle import DEFAULT_BUNDLE, missing_parts

    if flags["fleet_config"] is not None:
        return {}
    return missing_parts(_bundle(flags), _archive(flags, "tart"), flags["agent_bundle"] or DEFAULT_BUNDLE)


def optional_for_fleet(flags: dict[str, Any]) -> dict[str, str]:
    """By flag, what a fleet without a fleet file does without, and what that means; nothing with a fleet file."""
    from paddock.hosts.bootstrap.agent_bundle import SOFTNET_MISSING

    if flags["fleet_config"] is not None or _archive(flags, "softnet") is not None:
        return {}
    return {"--softnet-version": SOFTNET_MISSING}


def _bundle(flags: dict[str, Any]) -> "AgentBundle | None":
    """The bundle that is named, or the image's. One that is named must be there; simulated Macs take no other."""
    from paddock.hosts.bootstrap import PlanError
    from paddock.hosts.bootstrap.agent_bundle import DEFAULT_BUNDLE, read_bundle

    named = flags.get("agent_bundle")
    if named is None and (flags.get("simulate") or not DEFAULT_BUNDLE.exists()):
        return None
    try:
        return read_bundle(named or DEFAULT_BUNDLE, flags.get("agent_target") or "darwin-arm64")
    except (OSError, PlanError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise click.UsageError(f"--agent-bundle: {named or DEFAULT_BUNDLE}: {said}") from error


def _archive(flags: dict[str, Any], program: str) -> "Archive | None":
    from paddock.hosts.bootstrap import PlanError
    from paddock.hosts.bootstrap.pins import chosen

    try:
        return chosen(
            program,
            version=flags.get(f"{program}_version") or "",
            url=flags.get(f"{program}_url") or "",
            sha256=flags.get(f"{program}_sha256") or "",
            licence_accepted=bool(flags.get(f"accept_{program}_licence", program != "tart")),
        )
    except PlanError as error:
        raise click.UsageError(str(error)) from error
