"""Marks Macs on which jobs fail at once, and takes the marks off; the decision is `failing_macs`.

The mark is an annotation of the Node, and all that is kept: pools and dispatch keep jobs off a marked Mac, and the hosts' side
reboots it once nobody works there. Each write can be repeated, and costs no job: a pass that dies between two of them is made up for by
the next.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

from paddock.base.clock import Clock
from paddock.base.failing_mac import JOBS_FAIL, JobsFail, mark_of
from paddock.base.logs import get_logger
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.kube.events import EventRecorder
from paddock.kube.reader import CachedReader
from paddock.runners.api import FLEET_LABEL
from paddock.runners.pools.failing_macs import FleetJudgement, Mac, judge_fleet
from paddock.runners.pools.nodes import marked_of, well
from paddock.runners.pools.retirement import RetirementApi, RetirementUnavailableError

__all__ = ["MacMarks"]

log = get_logger("failing Macs")


class MacMarks:
    """One in the operator that leads. `once` looks at every fleet."""

    EVERY: ClassVar = 30.0

    def __init__(
        self,
        client: Client,
        nodes: CachedReader[Node],
        retirement: RetirementApi,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._retirement = retirement
        self._recorder = recorder
        self._clock = clock
        self._spared: dict[str, str] = {}

    async def once(self) -> None:
        fleets: dict[str, dict[str, Node]] = defaultdict(dict)
        for node in self._nodes.list():
            if fleet := node.metadata.labels.get(FLEET_LABEL):
                fleets[fleet][node.metadata.name] = node
        for fleet, nodes in fleets.items():
            judged = await self._judged(nodes)
            if judged.spared and self._spared.get(fleet) != judged.spared:
                log.warning("Macs look as if jobs failed on them, and are not avoided", fleet=fleet, why=judged.spared)
            self._spared[fleet] = judged.spared
            for name, node in nodes.items():
                await self._write(node, judged.marks.get(name))

    async def _judged(self, nodes: Mapping[str, Node]) -> FleetJudgement:
        macs = {
            name: Mac(node.status.node_info.get("bootID", ""), mark_of(node.metadata.annotations), well(node))
            for name, node in nodes.items()
        }
        try:
            ends = await self._retirement.ends_on(sorted(macs))
        except RetirementUnavailableError as error:
            log.debug("how jobs ended is not known", why=str(error))
            ends = None
        return judge_fleet(macs, ends, self._clock.now())

    async def _write(self, node: Node, mark: JobsFail | None) -> None:
        meta = node.metadata
        before, wanted = meta.annotations.get(JOBS_FAIL), mark.annotation() if mark is not None else None
        if before == wanted:
            return
        patch = {"metadata": {"uid": meta.uid, "annotations": {JOBS_FAIL: wanted}}}
        try:
            await self._client.merge_patch(Node, meta.name, patch)
        except (NotFoundError, ConflictError):
            return  # gone, or another Node of that name: judged anew in the next pass
        held = marked_of(node)
        if mark is not None and held is None:
            log.warning("jobs fail at once on a Mac", node=meta.name, why=mark.sentence)
            self._recorder.record(node, "Warning", "JobsFailAtOnce", mark.sentence)
        elif mark is None and held is not None:
            self._recorder.record(node, "Normal", "JobsFailNoMore", "jobs are given to this Mac again")
