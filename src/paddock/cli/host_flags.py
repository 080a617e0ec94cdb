"""The flags of the host subsystem, the same for `paddock operator` and `paddock up`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from paddock.hosts.bootstrap import FleetConfig
    from paddock.hosts.settings import HostSettings

__all__ = ["Duration", "fleet_config", "host_flags", "host_settings"]

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType):
    """`15m`, `90s`, `1h30m`: as Go programs write it, in seconds here."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is not a duration such as 15m, 90s or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


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
        click.option("--orphan-reclaim-interval", type=Duration(), default="15m", show_default=True, help="How often the cloud is swept for orphaned hosts."),
        click.option("--bootstrap-reboot-after", type=click.IntRange(0), default=3, show_default=True, help="Reboot a host once after this many failed bootstraps; 0 never."),
        click.option("--bootstrap-max-attempts", type=click.IntRange(0), default=8, show_default=True, help="Give a host back after this many failed bootstraps; 0 never."),
        click.option("--fleet-config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="YAML file: what is put on every Mac (payloads, firewall, agent)."),
        click.option("--namespace", default="default", show_default=True, help="Where the Host objects live."),
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
        **more,
    )


def fleet_config(flags: dict[str, Any]) -> "FleetConfig":
    """What is put on every Mac: the file's, or the default; UsageError names what is wrong in it."""
    from paddock.hosts.bootstrap import FleetConfig, PlanError
    from paddock.hosts.bootstrap.fleet_file import load_fleet

    path = flags["fleet_config"]
    try:
        return load_fleet(path) if path is not None else FleetConfig()
    except (OSError, PlanError) as error:
        raise click.UsageError(f"--fleet-config {path}: {error}") from error
