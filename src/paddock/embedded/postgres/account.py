"""Who Postgres runs as. It refuses to run as root, and so do we: root lends it an account that exists already."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.embedded.postgres.errors import DataFolderUnusableError

__all__ = ["OsAccount", "choose_account"]

# The account `nobody` is shared with other daemons, so it comes last.
_PREFERRED = ("postgres", "_postgres", "nobody")


@dataclass(frozen=True, slots=True)
class OsAccount:
    """The account of the server, and the name of the one that may connect to it: ours.

    `lent` says that we are root and hand the server this account; else the server simply runs as we do.
    """

    name: str
    uid: int
    gid: int
    client: str
    lent: bool

    def popen_options(self) -> dict[str, Any]:
        """What makes `subprocess` start a child as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.lent else {}

    def give(self, folder: Path) -> None:
        """Make the account own this one folder; nothing above it is touched."""
        if self.lent:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)

    def reaches(self, folder: Path) -> bool:
        """Whether the account can enter the folder, as the kernel sees it: modes, ACLs, mounts and all."""
        if not self.lent:
            return os.access(folder, os.X_OK)
        try:
            done = subprocess.run(  # noqa: S603 - fixed program; the folder is an argument, not part of the script
                ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)],
                check=False,
                capture_output=True,
                timeout=10,
                cwd="/",
                **self.popen_options(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DataFolderUnusableError(
                f"this process is root and may not run programs as {self.name}, and Postgres refuses to run as root: "
                "start Paddock as an ordinary user, or give a DSN"
            ) from error
        return done.returncode == 0


def choose_account(data: Path) -> OsAccount:
    """The account to run as: ours, or when we are root that of the existing data, else a preferred one."""
    euid = os.geteuid()
    try:
        client = pwd.getpwuid(euid).pw_name
    except KeyError as error:
        raise DataFolderUnusableError(
            f"user id {euid} has no name in the system's user list, and Postgres insists on one: "
            "add one, start Paddock as another user, or give a DSN"
        ) from error
    owner = data.stat().st_uid if data.exists() else None
    if euid != 0:
        if owner not in (None, euid):
            raise DataFolderUnusableError(
                f"{data} belongs to user id {owner} and this is {client}: start Paddock as its owner, "
                "or choose another data folder"
            )
        return OsAccount(client, euid, os.getegid(), client, lent=False)
    names = [entry for name in _PREFERRED if (entry := _entry(name)) is not None]
    if owner:
        names = [entry for entry in pwd.getpwall() if entry.pw_uid == owner] + names
    for entry in names:
        if entry.pw_uid != 0:
            return OsAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, client, lent=True)
    raise DataFolderUnusableError(
        "this process is root, Postgres refuses to run as root, and there is neither an account named postgres nor "
        "nobody: start Paddock as an ordinary user, or give a DSN"
    )


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
