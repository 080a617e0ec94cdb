"""What a runner is minted with: a name that was never used, the labels it offers, the folder it works in."""

import random
from typing import Final

from paddock.runners.api import RunnerPool

__all__ = ["LONGEST_NAME", "labels_of", "runner_name", "work_folder"]

LONGEST_NAME: Final = 64
"""GitHub refuses longer ones (422)."""


def runner_name(pod_name: str, rng: random.Random) -> str:
    """The Pod's name, shortened, and eight hex digits that are new for every mint.

    GitHub reserves a name when it mints, also if nobody ever heard the answer; a second mint under it would fail for
    good. So a name is drawn for each mint and never kept for another try.
    """
    suffix = f"{rng.getrandbits(32):08x}"
    return f"{pod_name[: LONGEST_NAME - len(suffix) - 1].rstrip('-.')}-{suffix}"


def labels_of(pool: RunnerPool, requested: str) -> tuple[str, ...]:
    """What the pool's runners offer, and the label that the job asked for, spelled as it did; each once.

    A job that names no label came by the pool's own.
    """
    labels: dict[str, str] = {}
    for label in (*pool.spec.runner_labels, requested or pool.spec.dispatch_label):
        labels.setdefault(label.lower(), label)  # GitHub's labels do not differ by case alone
    return tuple(labels.values())


def work_folder(pool: RunnerPool) -> str:
    return "/Users/runner/work" if pool.spec.os == "darwin" else "/home/runner/work"
