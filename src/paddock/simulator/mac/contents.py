"""What is on a Mac's disk, for those who look at it from outside."""

from abc import ABC, abstractmethod

from paddock.simulator.mac.disk import Disk

__all__ = ["Contents"]


class Contents(ABC):
    """Files of the Mac under the paths the Mac knows them by."""

    @property
    @abstractmethod
    def disk(self) -> Disk:
        """The disk of the present install."""

    def read(self, path: str) -> bytes:
        return self.disk.at(path).read_bytes()

    def write(
        self, path: str, content: bytes | str, *, mode: int = 0o644, owner: tuple[str, str] | None = None
    ) -> None:
        """Put a file there from outside, for example what an earlier tenant left; it is no command's effect."""
        place = self.disk.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        if owner is not None:
            self.disk.own(path, *owner)
        self.disk.look()

    def exists(self, path: str) -> bool:
        return self.disk.at(path).exists()

    def mode(self, path: str) -> int:
        return self.disk.at(path).stat().st_mode & 0o7777

    def owner(self, path: str) -> tuple[str, str]:
        return self.disk.owner(path)
