"""The part of the API about runners: mint, list, look at, unregister."""

from collections.abc import Callable
from typing import Any

from paddock.simulator.github import problems, wire
from paddock.simulator.github.access import GitHubCall, paged, permitted, repository_of
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.requests import json_answer
from paddock.simulator.github.state import SimulatedRunner
from paddock.simulator.service.response import ServiceResponse

__all__ = ["RunnersApi"]

_LONGEST_NAME = 64
_MOST_LABELS = 100
_LONGEST_LABEL = 256


class RunnersApi:
    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._state = queue.state

    def handlers(self) -> dict[str, Callable[[GitHubCall], ServiceResponse]]:
        return {
            "mint": self._mint,
            "list_runners": self._list,
            "get_runner": self._get,
            "list_groups": self._list_groups,
            "delete_runner": self._delete,
        }

    def _place(self, call: GitHubCall, needed: str) -> str:
        """The place of the path as GitHub spells it, if the installation may act there."""
        if "org" not in call.parts:
            repository = repository_of(self._state, call)
            permitted(call, "administration", needed)
            return f"repos/{repository.full_name}"
        account = call.account
        # A personal account has no organisation's runners, and another's organisation is not to be seen.
        if account is None or account.login.lower() != call.parts["org"].lower() or account.kind != "Organization":
            raise problems.missing()
        permitted(call, "organization_self_hosted_runners", needed)
        return f"orgs/{account.login}"

    def _mint(self, call: GitHubCall) -> ServiceResponse:
        place = self._place(call, "write")
        name, labels, group_id = _checked(call.fields)
        self._check_group(call, place, group_id)
        if name.lower() in self._state.names.get(place, {}):
            raise problems.conflict(f"Already exists - A runner with the name {name} already exists.")
        runner = self._queue.mint(place, name, labels, call.now, group_id)
        body = {"runner": _shown(runner), "encoded_jit_config": wire.encoded_jit_config(runner)}
        return json_answer(201, body, effect=True)

    def _check_group(self, call: GitHubCall, place: str, group_id: int) -> None:
        """A runner joins a group of its organisation; a repository's has the default one alone."""
        known = call.account.group(group_id) if call.account is not None and place.startswith("orgs/") else None
        if known is None and (place.startswith("orgs/") or group_id != 1):
            raise problems.invalid(f"Runner group {group_id} does not exist.", field="runner_group_id")

    def _list_groups(self, call: GitHubCall) -> ServiceResponse:
        self._place(call, "read")
        assert call.account is not None  # or there would be no such place
        login, groups = call.account.login, call.account.groups
        if name := call.query.get("visible_to_repository"):
            repository = self._state.repository(f"{call.account.login}/{name}")
            groups = [group for group in groups if repository is not None and group.open_to(repository)]
        return paged(call, "runner_groups", groups, lambda group: wire.group_json(login, group))

    def _list(self, call: GitHubCall) -> ServiceResponse:
        place, lag, name = self._place(call, "read"), self._state.behaviour.list_lag, call.query.get("name")
        there = [each for each in self._state.runners.values() if each.place == place and name in (None, "", each.name)]
        seen = [(runner, seen) for runner in there if (seen := wire.sighting_of(runner, call.now, lag)) is not None]
        return paged(call, "runners", seen, lambda each: wire.runner_json(*each))

    def _get(self, call: GitHubCall) -> ServiceResponse:
        place = self._place(call, "read")
        return json_answer(200, _shown(self._runner(call, place)))

    def _delete(self, call: GitHubCall) -> ServiceResponse:
        place = self._place(call, "write")
        runner = self._runner(call, place)
        if runner.busy:
            raise problems.invalid(f'Runner "{runner.name}" is currently running a job and cannot be deleted.')
        self._queue.remove(runner, call.now)
        return ServiceResponse(status=204, effect=True)

    def _runner(self, call: GitHubCall, place: str) -> SimulatedRunner:
        runner = self._state.runners.get(int(call.parts["runner_id"]))
        if runner is None or runner.removed or runner.delisted or runner.place != place:
            raise problems.missing()
        return runner


def _shown(runner: SimulatedRunner) -> dict[str, Any]:
    """The runner as it is now; only lists lag."""
    return wire.runner_json(runner, runner.observations[-1])


def _checked(fields: dict[str, Any]) -> tuple[str, list[str], int]:
    """The name, the labels and the group of a mint; raises the 422 of the real API for what it does not accept."""
    name, labels, group = fields.get("name"), fields.get("labels"), fields.get("runner_group_id")
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
        raise problems.invalid(f"Runner name must have 1 to {_LONGEST_NAME} characters.", field="name")
    if not isinstance(group, int) or isinstance(group, bool) or group < 1:
        raise problems.invalid("Invalid request. `runner_group_id` must be an integer.", field="runner_group_id")
    if not isinstance(labels, list) or not 1 <= len(labels) <= _MOST_LABELS:
        raise problems.invalid(f"A runner needs 1 to {_MOST_LABELS} labels.", field="labels")
    if not all(isinstance(label, str) and label.strip() and len(label) <= _LONGEST_LABEL for label in labels):
        raise problems.invalid(f"A label has 1 to {_LONGEST_LABEL} characters.", field="labels")
    if not isinstance(fields.get("work_folder", "_work"), str):
        raise problems.invalid("`work_folder` must be a string.", field="work_folder")
    return name, list(labels), group
