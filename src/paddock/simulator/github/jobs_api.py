"""The part of the API about workflow runs and their jobs."""

from collections.abc import Callable

from paddock.simulator.github import problems, wire
from paddock.simulator.github.access import GitHubCall, paged, permitted, repository_of
from paddock.simulator.github.requests import json_answer
from paddock.simulator.github.state import GitHubState, Run, SimulatedJob, SimulatedRepository
from paddock.simulator.github.wire_places import repository_json
from paddock.simulator.service.response import ServiceResponse

__all__ = ["JobsApi"]


class JobsApi:
    def __init__(self, state: GitHubState) -> None:
        self._state = state

    def handlers(self) -> dict[str, Callable[[GitHubCall], ServiceResponse]]:
        return {
            "get_repository": self._get_repository,
            "get_job": self._get_job,
            "list_runs": self._list_runs,
            "get_run": self._get_run,
            "list_jobs": self._list_jobs,
        }

    def _visible(self, call: GitHubCall) -> SimulatedRepository:
        repository = repository_of(self._state, call)
        permitted(call, "actions", "read")
        return repository

    def _get_repository(self, call: GitHubCall) -> ServiceResponse:
        repository = repository_of(self._state, call)
        owner = self._state.account(repository.owner)
        assert owner is not None  # a repository is made with its owner
        return json_answer(200, repository_json(repository, owner))

    def _get_job(self, call: GitHubCall) -> ServiceResponse:
        repository = self._visible(call)
        job = self._state.jobs.get(int(call.parts["job_id"]))
        if job is None or job.repository != repository.full_name:
            raise problems.missing()
        return json_answer(200, wire.job_json(job, self._state.runs[job.run_id], call.now))

    def _list_runs(self, call: GitHubCall) -> ServiceResponse:
        repository = self._visible(call)
        runs = [run for run in reversed(self._state.runs.values()) if run.repository == repository.full_name]
        if wanted := call.query.get("status"):  # a status or a conclusion
            runs = [run for run in runs if wanted in wire.run_status(self._jobs(run), call.now)]
        return paged(call, "workflow_runs", runs, lambda run: self._run_json(run, repository, call))

    def _get_run(self, call: GitHubCall) -> ServiceResponse:
        repository = self._visible(call)
        return json_answer(200, self._run_json(self._run(call, repository), repository, call))

    def _list_jobs(self, call: GitHubCall) -> ServiceResponse:
        run = self._run(call, self._visible(call))
        return paged(call, "jobs", self._jobs(run), lambda job: wire.job_json(job, run, call.now))

    def _run(self, call: GitHubCall, repository: SimulatedRepository) -> Run:
        run = self._state.runs.get(int(call.parts["run_id"]))
        if run is None or run.repository != repository.full_name:
            raise problems.missing()
        return run

    def _jobs(self, run: Run) -> list[SimulatedJob]:
        return [self._state.jobs[job_id] for job_id in run.jobs]

    def _run_json(self, run: Run, repository: SimulatedRepository, call: GitHubCall) -> dict[str, object]:
        owner = self._state.accounts[repository.owner.lower()]
        return wire.run_json(run, self._jobs(run), repository, owner, call.now)
