"""Accounts and repositories that change their names: what moves along, and what the old name still leads to."""

from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.state import GitHubState, SimulatedAccount, SimulatedRepository

__all__ = ["Places"]


class Places:
    """Numbers stay; everything that is written by name gets the new one."""

    def __init__(self, state: GitHubState, queue: JobQueue) -> None:
        self._state = state
        self._queue = queue

    def rename_account(self, account: SimulatedAccount, login: str) -> None:
        state, former = self._state, account.login
        owned = [each for each in state.repositories.values() if each.owner == former]
        del state.accounts[former.lower()]
        account.login = login
        state.accounts[login.lower()] = account
        self._move_place(f"orgs/{former}", f"orgs/{login}")
        for group in account.groups:
            group.repositories = [f"{login}/{name.partition('/')[2]}" for name in group.repositories]
        for repository in owned:
            self.move_repository(repository, f"{login}/{repository.name}")

    def move_repository(self, repository: SimulatedRepository, full_name: str) -> SimulatedRepository:
        state, former = self._state, repository.full_name
        owner = state.accounts[full_name.partition("/")[0].lower()]
        del state.repositories[former.lower()]
        repository.full_name, repository.owner = full_name, owner.login
        state.repositories[full_name.lower()] = repository
        state.moved[former.lower()] = repository.id
        state.moved.pop(full_name.lower(), None)
        for one in (*state.runs.values(), *state.jobs.values()):
            if one.repository == former:
                one.repository = full_name
        self._move_place(f"repos/{former}", f"repos/{full_name}")
        return repository

    def _move_place(self, former: str, place: str) -> None:
        self._queue.move(former, place)
        for one in (*self._state.scale_sets.values(), *self._state.service_tokens.values()):
            if one.place == former:
                one.place = place
