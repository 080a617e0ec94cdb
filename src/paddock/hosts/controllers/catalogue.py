"""What the cloud rents out, kept for a while: so that a spec that names something else is told what to write instead."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from paddock.base.logs import get_logger
from paddock.clients.scaleway import Cloud, ScalewayError
from paddock.clients.scaleway.os_family import family_key

__all__ = ["Catalogue"]

log = get_logger("catalogue")


@dataclass
class Catalogue:
    """Types and macOS families by zone. What is not known yet is None: then nothing is refused because of it."""

    cloud: Cloud
    zones: Callable[[], Collection[str]]
    _types: dict[str, frozenset[str]] = field(default_factory=dict)
    _families: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def refresh(self) -> None:
        """Read it anew. A zone that cannot be read keeps what was known of it."""
        for zone in sorted(self.zones()):
            try:
                types = await self.cloud.list_server_types(zone)
                images = await self.cloud.list_os(zone)
            except ScalewayError as error:
                log.warning("the catalogue of a zone could not be read", zone=zone, why=str(error))
                continue
            self._types[zone] = frozenset(offered.name for offered in types)
            self._families[zone] = {family_key(image.family): image.family for image in images if image.family}

    def types(self, zone: str) -> frozenset[str] | None:
        """The server types of a zone, or None while they are not known."""
        return self._types.get(zone)

    def families(self, zone: str) -> Mapping[str, str] | None:
        """The macOS families of a zone by their comparable form, or None while they are not known."""
        return self._families.get(zone)
