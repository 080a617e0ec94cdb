"""The same seed gives the same names, and the names look as Kubernetes' own do."""

from __future__ import annotations

import uuid

from paddock.base.rng import kube_suffix, new_uuid, seeded, unseeded


def test_the_same_seed_gives_the_same_sequence() -> None:
    one, other = seeded("fleet"), seeded("fleet")
    assert [new_uuid(one) for _ in range(5)] == [new_uuid(other) for _ in range(5)]
    assert kube_suffix(one) == kube_suffix(other)


def test_another_seed_gives_another_sequence() -> None:
    assert new_uuid(seeded(1)) != new_uuid(seeded(2))


def test_two_unseeded_generators_do_not_agree() -> None:
    assert new_uuid(unseeded()) != new_uuid(unseeded())


def test_a_uuid_is_of_version_four_whatever_was_drawn() -> None:
    for seed in range(100):
        made = uuid.UUID(new_uuid(seeded(seed)))
        assert (made.version, made.variant) == (4, uuid.RFC_4122)


def test_a_suffix_has_no_vowels_and_nothing_that_looks_like_another_letter() -> None:
    drawn = kube_suffix(seeded(3), length=2000)
    assert len(drawn) == 2000
    assert not set(drawn) & set("aeiouy013")
