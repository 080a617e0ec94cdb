"""The fleet's configuration as a TOML file. Mistakes are told by field, all of them before any Mac is touched."""

import tomllib
from pathlib import Path

import msgspec

from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.plan import FleetConfig

__all__ = ["read_fleet_config"]


def read_fleet_config(path: Path | None) -> FleetConfig:
    """The configuration in a file, or the default one where none is given; PlanError names the file and the field."""
    if path is None:
        return FleetConfig()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(content, FleetConfig, strict=True)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanError(str(path), f"cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise PlanError(str(path), str(error)) from error
