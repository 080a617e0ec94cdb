"""Which pool a job goes to. Pure: pools and labels in, a choice or the reason for none out.

A job goes to the pool whose dispatch label it carries, if that pool's runners offer all of its labels: GitHub would never
give it to a runner that lacks one, so that a Pod would be spent for nothing. Of two pools with one dispatch label the one
that has had it longest gets the job, whatever else the job carries. Labels do not differ by case alone, as at GitHub. A
pool that is being deleted takes no job, so its successor may have its label at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from paddock.base.explanation import listed
from paddock.runners.api import RunnerPool
from paddock.runners.api.dispatch_label import label_keeper
from paddock.runners.webhooks.payload import storable

__all__ = ["Chosen", "Ignored", "Reason", "choose", "kin", "nearest", "offered", "only_queues_offer"]

Reason = Literal["no_pools", "no_matching_pool", "ambiguous_pool", "labels_not_offered"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """`label` is the dispatch label as the job spells it: what its runner is registered with."""

    pool: RunnerPool
    label: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """`nearest` is a pool whose dispatch label the job carries, though it cannot be sent there: the job is meant for us."""

    reason: Reason
    sentence: str
    nearest: RunnerPool | None = None


def choose(pools: Iterable[RunnerPool], labels: Sequence[str]) -> Chosen | Ignored:
    """The pool for a job with these labels. The order of pools and of labels does not matter."""
    standing = [pool for pool in pools if pool.metadata.deletion_timestamp is None]
    if not standing:
        return Ignored("no_pools", "there is no RunnerPool: create one")
    spelling = {label.lower(): label for label in reversed(labels)}
    keepers = (label_keeper(standing, label) for label in spelling)
    carried = [pool for pool in keepers if pool is not None]
    if not carried:
        return Ignored("no_matching_pool", _unmatched(standing, spelling.keys()))
    able = [pool for pool in carried if spelling.keys() <= _offer(pool)]
    if len(able) > 1:
        names = _listed([pool.metadata.name for pool in able])
        return Ignored("ambiguous_pool", f"pools {names} both fit: let the job carry one dispatch label", _first(able))
    if not able:
        nearest = _first(carried)
        lacking = sorted(spelling.keys() - _offer(nearest))
        sentence = f"the runners of pool {nearest.metadata.name} do not offer {_listed(lacking)}"
        return Ignored("labels_not_offered", sentence, nearest)
    return Chosen(able[0], spelling[able[0].spec.dispatch_label.lower()])


def offered(pools: Iterable[RunnerPool], labels: Sequence[str]) -> bool:
    """Whether GitHub may give a job with these labels to some runner of ours, even if no dispatch label brought it."""
    wanted = {label.lower() for label in labels}
    return bool(wanted) and any(wanted <= _offer(pool) for pool in pools)


def only_queues_offer(pools: Iterable[RunnerPool], labels: Sequence[str]) -> bool:
    """Whether GitHub gives a job with these labels to runners of scale sets of ours alone, so that a queue announces it."""
    wanted = {label.lower() for label in labels}
    standing = [pool for pool in pools if pool.metadata.deletion_timestamp is None]
    able = [pool for pool in standing if wanted <= _offer(pool)] if wanted else []
    return bool(able) and all(pool.spec.job_source == "ScaleSet" for pool in able)


def kin(pools: Iterable[RunnerPool], labels: Sequence[str]) -> bool:
    """Whether a job with these labels may be meant for runners of ours: it asks for no runner of GitHub's, or for a label that
    one of our pools has.
    """
    wanted = {label.lower() for label in labels}
    profiles = {profile.label.lower() for pool in pools for profile in pool.spec.profiles}
    return "self-hosted" in wanted or bool(wanted & profiles) or any(wanted & _offer(pool) for pool in pools)


def nearest(pools: Iterable[RunnerPool], labels: Iterable[str]) -> RunnerPool | None:
    """The pool whose runners offer most of these labels; of several, whose labels share most words (macos-62, paddock-macos)."""
    wanted = {label.lower() for label in labels}
    words = _words(wanted)

    def distance(pool: RunnerPool) -> tuple[int, int, str]:
        offer = _offer(pool)
        return -len(wanted & offer), -len(words & _words(offer)), pool.metadata.name

    return min(pools, key=distance, default=None)


def _unmatched(pools: Sequence[RunnerPool], wanted: Iterable[str]) -> str:
    wanted = set(wanted)
    lacking = wanted.difference(*(_offer(pool) for pool in pools))
    close = nearest(pools, wanted)
    assert close is not None  # there is a pool
    what = f"nobody offers {_listed(list(lacking))}" if lacking else "it carries no dispatch label"
    return f"{what}; the nearest pool is {close.metadata.name}, whose jobs carry {close.spec.dispatch_label}"


def _first(pools: Sequence[RunnerPool]) -> RunnerPool:
    return min(pools, key=lambda pool: pool.metadata.name)


def _offer(pool: RunnerPool) -> set[str]:
    return {label.lower() for label in (pool.spec.dispatch_label, *pool.spec.runner_labels)}


def _words(labels: Iterable[str]) -> set[str]:
    return {word for label in labels for word in label.split("-")}


def _listed(words: Sequence[str]) -> str:
    # Sentences are kept beside the job: what could not be stored would have its announcement given up.
    return listed(sorted(storable(word) for word in words))
