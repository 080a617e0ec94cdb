"""A runner for a job of a scale set: minted in the set that announced the job."""

from paddock.clients.github import MintedRunner, NotFound, RunnerPlace, ScaleSets
from paddock.runners.ledger import Claim, Ledger

__all__ = ["ScaleSetMinting"]


class ScaleSetMinting:
    def __init__(self, ledger: Ledger, scale_sets: ScaleSets) -> None:
        self._ledger = ledger
        self._scale_sets = scale_sets

    async def mint(self, claim: Claim, installation_id: int, *, name: str, work_folder: str) -> MintedRunner:
        """A single-job runner of the job's set. NotFound where the set is gone: its listener makes it anew."""
        source = await self._ledger.assignments.source_of(claim.job_id)
        if source is None or source.scale_set_id is None:
            raise NotFound(f"the scale set of job {claim.job_id} does not exist at this moment")
        project = source.repository.partition("/")[2]
        place = RunnerPlace(installation_id, claim.login, project)
        return await self._scale_sets.mint(place, source.scale_set_id, name=name, work_folder=work_folder)

    async def remove(self, minted: MintedRunner) -> None:
        """Unregister a runner that no Pod was handed."""
        await self._scale_sets.remove_runner(minted.place, minted.runner_id)
