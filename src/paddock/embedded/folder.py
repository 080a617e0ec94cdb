"""The data folder of `paddock up`: what is in it, and who may read it."""

import errno
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.certificates import private_file

__all__ = ["DataFolder", "DataFolderError"]

_MARK = "paddock-data"
_WORDS = "Paddock keeps its database, its keys and its kubeconfig here.\n"


class DataFolderError(Exception):
    """The folder cannot be the data folder: the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths below one folder. Secrets are made once, kept across restarts, and readable by their owner alone."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.root / "pki"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    def make(self) -> None:
        """Make it, or take one that is empty or was ours before; DataFolderError for any other: nothing is spread over it."""
        try:
            # Enterable by others, so that Postgres, which never runs as root, can reach its part; secrets are closed to them.
            self.root.mkdir(parents=True, exist_ok=True, mode=0o711)
            if not self._is_ours() and any(self.root.iterdir()):
                raise DataFolderError(
                    f"{self.root} has files of others in it: give --data a folder that is new, empty or was one of Paddock's"
                )
            (self.root / _MARK).write_text(_WORDS, encoding="utf-8")
        except PermissionError:
            raise  # said by whoever asked for it, as that of any file in the folder
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            why = error.strerror or type(error).__name__
            raise DataFolderError(f"{self.root} cannot be the data folder ({why}): give --data another one") from error

    def _is_ours(self) -> bool:
        """By our mark; a release before had none, and made its database and a token at the first start."""
        marks = (self.root / _MARK, self.certificates / "admin.token", self.postgres / "data" / "PG_VERSION")
        return any(each.is_file() for each in marks)

    def admin_token(self) -> Secret:
        """The token in the kubeconfig."""
        return self._kept("admin.token", lambda: secrets.token_urlsafe(32))

    def action_token(self) -> Secret:
        """What a person shows to the page, once, to be allowed to act on it."""
        return self._kept("action.token", lambda: secrets.token_urlsafe(24))

    def signing_key(self) -> Secret:
        """The key that signs ServiceAccount tokens."""
        return self._kept("service-accounts.key", lambda: generate_key().reveal())

    def say_where(
        self, *, api: str, page: str, sweeping: Mapping[str, str], macs: Mapping[str, object] | None = None
    ) -> None:
        """Leave the addresses, how hosts are swept and what Macs are told for commands that are run in the folder above."""
        told = {**sweeping, "macs": dict(macs or {})}
        (self.root / "server").write_text(f"{api} {page}\n{json.dumps(told)}\n", encoding="utf-8")

    def _kept(self, name: str, make: Callable[[], str]) -> Secret:
        path = self.certificates / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            private_file(path, make().encode())
        return Secret(path.read_text(encoding="utf-8"))
