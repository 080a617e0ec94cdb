"""How a failed run is told, with its step and without."""

import pytest

from paddock.hosts.bootstrap.errors import FailureKind
from paddock.hosts.bootstrap.outcome import Failed

KIND = next(iter(FailureKind))


@pytest.mark.parametrize(
    ("failed", "detail", "sentence"),
    [
        (Failed(step="sudo", kind=KIND, message="no"), "no", "sudo: no"),
        (
            Failed(step="sudo", kind=KIND, message="sudo: no", exit_status=1),
            "(exit status 1): sudo: no",
            "sudo (exit status 1): sudo: no",
        ),
        (Failed(step="sudo", kind=KIND, message="no", stderr="denied"), "no: denied", "sudo: no: denied"),
        (Failed(step="sudo", kind=KIND, message="no: denied", stderr="denied"), "no: denied", "sudo: no: denied"),
    ],
)
def test_the_detail_is_the_sentence_without_its_step(failed: Failed, detail: str, sentence: str):
    assert (failed.detail, failed.sentence) == (detail, sentence)
