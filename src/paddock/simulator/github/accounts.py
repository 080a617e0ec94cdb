"""Accounts, repositories and groups, and what people do with the App there: install, suspend, rename, transfer."""

from collections.abc import Callable, Iterable
from typing import Literal

from paddock.base.clock import Clock
from paddock.simulator.errors import SimulationError
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.places import Places
from paddock.simulator.github.state import (
    PERMISSIONS,
    PERSONAL_PERMISSIONS,
    SimulatedAccount,
    SimulatedGroup,
    SimulatedRepository,
)
from paddock.simulator.github.webhooks import Webhooks

__all__ = ["Accounts"]


class Accounts:
    """Each act of a person's is told to the App as GitHub tells it; `stir` says that there is something to send."""

    def __init__(self, queue: JobQueue, webhooks: Webhooks, clock: Clock, stir: Callable[[], None]) -> None:
        self._state = queue.state
        self._queue = queue
        self._webhooks = webhooks
        self._clock = clock
        self._stir = stir
        self._places = Places(queue.state, queue)
        self._lost: dict[str, SimulatedRepository] = {}

    def add_organization(self, login: str, *repositories: str) -> SimulatedAccount:
        """An organisation with the App installed, and its repositories ("app", "web")."""
        return self._add_account(login, "Organization", repositories)

    def add_user(self, login: str, *repositories: str) -> SimulatedAccount:
        """A personal account with the App installed: it has no runners but those of its repositories."""
        return self._add_account(login, "User", repositories)

    def _add_account(
        self, login: str, kind: Literal["Organization", "User"], repositories: Iterable[str]
    ) -> SimulatedAccount:
        state = self._state
        permissions = dict(PERMISSIONS if kind == "Organization" else PERSONAL_PERMISSIONS)
        account = SimulatedAccount(
            id=state.fresh_id(3), login=login, kind=kind, installation_id=state.fresh_id(5), permissions=permissions
        )
        state.accounts[login.lower()] = account
        for name in repositories:
            self.add_repository(f"{login}/{name}")
        return account

    def add_repository(self, full_name: str) -> SimulatedRepository:
        owner = self.account(full_name.partition("/")[0])
        repository = SimulatedRepository(id=self._state.fresh_id(7), full_name=full_name, owner=owner.login)
        self._state.repositories[full_name.lower()] = repository
        self._state.moved.pop(full_name.lower(), None)
        return repository

    def add_group(self, login: str, name: str, *repositories: str, allows_public: bool = True) -> SimulatedGroup:
        """A runner group of the organisation, open to these repositories ("app", "web"), or to all where none is named."""
        group = SimulatedGroup(
            id=self._state.fresh_id(2),
            name=name,
            visibility="selected" if repositories else "all",
            repositories=[f"{login}/{each}" for each in repositories],
            allows_public=allows_public,
        )
        self.account(login).groups.append(group)
        return group

    def close_default_group(self, login: str, *but: str) -> None:
        """The organisation's default group serves only these repositories from now on."""
        group = self.account(login).group(1)
        assert group is not None  # every organisation has it
        group.visibility, group.repositories = "selected", [f"{login}/{each}" for each in but]

    def rename_account(self, login: str, new: str) -> SimulatedAccount:
        """The account takes another login; its number, installation, runners and repositories stay; the App is told. The old
        login is free, and names of repositories under it lead to the new ones until somebody takes them.
        """
        self._places.rename_account(self.account(login), new)
        account = self.account(new)
        self._webhooks.announce_rename(account, login, self._queue.settle())
        self._stir()
        return account

    def rename_repository(self, full_name: str, new: str) -> SimulatedRepository:
        """The repository takes another name ("web") at its owner; its number, runs and runners stay."""
        return self._places.move_repository(self.repository(full_name), f"{full_name.partition('/')[0]}/{new}")

    def transfer_repository(self, full_name: str, owner: str) -> SimulatedRepository:
        """The repository goes to another account, which sees its runs from now on; both installations are told."""
        repository, former = self.repository(full_name), self.account(full_name.partition("/")[0])
        self._told(former, "removed", repository.full_name)
        self._places.move_repository(repository, f"{self.account(owner).login}/{repository.name}")
        self._told(self.account(owner), "added", repository.full_name)
        return repository

    def account(self, login: str) -> SimulatedAccount:
        account = self._state.account(login)
        if account is None:
            raise SimulationError(f"this GitHub has no account {login!r}: add it with add_organization or add_user")
        return account

    def repository(self, full_name: str) -> SimulatedRepository:
        known = self._state.repository(full_name)
        if known is None:
            raise SimulationError(f"this GitHub has no repository {full_name!r}: add it with add_repository")
        return known

    def suspend(self, login: str, *, suspended: bool = True) -> None:
        """Somebody suspends the App there, or lets it act again; the App is told."""
        account, now = self.account(login), self._clock.now()
        account.suspended_at = now if suspended else None
        self._told(account, "suspend" if suspended else "unsuspend")

    def uninstall(self, login: str) -> None:
        """Somebody removes the App: it is told, its tokens stop working and its webhooks stop coming."""
        account = self.account(login)
        account.installed = False
        self._told(account, "deleted")

    def install(self, login: str) -> SimulatedAccount:
        """Somebody installs the App, for the first time or anew, which is another installation; the App is told."""
        account = self.account(login)
        account.installation_id, account.installed, account.suspended_at = self._state.fresh_id(5), True, None
        self._told(account, "created")
        return account

    def accept_permissions(self, login: str, **permissions: str) -> None:
        """Somebody accepts what the App asks for anew; the App is told."""
        account = self.account(login)
        account.permissions |= permissions
        self._told(account, "new_permissions_accepted")

    def give_repository(self, full_name: str) -> SimulatedRepository:
        """The installation gets one more repository, or one that it lost, as it was; the App is told."""
        lost = self._lost.pop(full_name.lower(), None)
        repository = self.add_repository(full_name) if lost is None else lost
        self._state.repositories[full_name.lower()] = repository
        self._told(self.account(repository.owner), "added", repository.full_name)
        return repository

    def take_repository(self, full_name: str) -> None:
        """The installation loses a repository: for the App it is not there any more."""
        repository = self._state.repositories[full_name.lower()]
        self._told(self.account(repository.owner), "removed", repository.full_name)
        self._lost[full_name.lower()] = self._state.repositories.pop(full_name.lower())

    def _told(self, account: SimulatedAccount, action: str, *names: str) -> None:
        self._webhooks.announce_installation(account, action, self._queue.settle(), names)
        self._stir()
