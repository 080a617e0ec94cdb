"""The runner Pods of each Mac, as the watch shows them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from paddock.gateway.identities import SILENT_AFTER, Followed
from paddock.kube.builtin import Pod

__all__ = ["BY_NODE", "BoundPods", "of_node"]

BY_NODE: Final = "node"


def of_node(pod: Pod) -> list[str]:
    """The indexer `BY_NODE` of the informer of Pods."""
    return [pod.spec.node_name] if pod.spec.node_name else []


class BoundPods:
    """What is bound to a Node. It is never more than the watch shows, so that nothing follows from a Pod that is missing here."""

    def __init__(self, pods: Followed[Pod]) -> None:
        self._pods = pods

    def of(self, node: str) -> Sequence[Pod]:
        return self._pods.reader.by_index(BY_NODE, node)

    def find(self, node: str, uid: str) -> Pod | None:
        return next((pod for pod in self.of(node) if pod.metadata.uid == uid), None)

    def born(self, node: str) -> dict[str, datetime]:
        """The creation of each, by uid."""
        created = ((pod.metadata.uid, pod.metadata.creation_timestamp) for pod in self.of(node))
        return {uid: at for uid, at in created if at is not None}

    def current(self) -> bool:
        """Whether the watch follows: what it does not show was not there a moment ago."""
        return self._pods.synced.is_set() and self._pods.last_event_age() < SILENT_AFTER
