import pytest

from paddock.clients.scaleway import OperatingSystem, OSNotPublished, OSPinNotFamily
from paddock.clients.scaleway.os_family import (
    family_key,
    family_matches,
    newest_image,
    require_family,
    version_key,
)


def image(name: str, family: str, version: str, *types: str, is_beta: bool = False) -> OperatingSystem:
    return OperatingSystem(
        id=f"id of {name}", name=name, family=family, version=version, is_beta=is_beta, compatible_server_types=types
    )


CATALOGUE = (
    image("macos-sequoia-15.6", "Sequoia", "15.6.1", "M2-L", "M4-S"),
    image("macos-tahoe-26.0", "Tahoe", "26.0", "M2-L", "M4-S"),
    image("macos-tahoe-26.10", "Tahoe", "26.10", "M4-S"),
    image("macos-tahoe-26.9", "Tahoe", "26.9", "M2-L", "M4-S"),
    image("macos-tahoe-27.0-beta", "Tahoe", "27.0-beta", "M2-L", "M4-S", is_beta=True),
    image("devos-tahoe-26.11", "DevOS", "26.11", "M2-L", "M4-S"),
    image("fedora-asahi-remix", "Linux", "42", "M2-L-ASAHI", is_beta=True),
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Tahoe", "tahoe"),
        ("tahoe", "tahoe"),
        ("macos-tahoe-26.6.1", "tahoe"),
        ("macOS Tahoe 26.0", "tahoe"),
        ("macos-golden-gate-27.0", "goldengate"),
        ("Golden Gate", "goldengate"),
        ("golden_gate", "goldengate"),
        ("devos-tahoe-26.3", "devostahoe"),
        ("DevOS", "devos"),
        ("fedora-asahi-remix", "fedoraasahiremix"),
        ("", ""),
    ],
)
def test_a_family_has_one_key_however_it_is_written(text: str, key: str):
    assert family_key(text) == key


def test_any_point_release_matches_its_family_and_nothing_else_does():
    assert all(family_matches(os, "Tahoe") for os in CATALOGUE[1:5])
    assert not family_matches(CATALOGUE[0], "Tahoe")
    assert not family_matches(CATALOGUE[5], "Tahoe"), "DevOS is another system"
    assert family_matches(CATALOGUE[5], "DevOS")


def test_the_name_decides_where_the_family_is_a_number():
    assert family_matches(image("macos-tahoe-26.3", "26", "26.3"), "tahoe")


@pytest.mark.parametrize(("os", "pin"), [(None, "Tahoe"), (CATALOGUE[1], ""), (CATALOGUE[1], "  ")])
def test_no_image_and_no_pin_match_nothing(os: OperatingSystem | None, pin: str):
    assert not family_matches(os, pin)


@pytest.mark.parametrize("pin", ["macos-tahoe-26.3", "Tahoe 26", "tahoe-26.6.1"])
def test_a_version_pin_is_refused_with_the_family_to_use_instead(pin: str):
    with pytest.raises(OSPinNotFamily, match="'Tahoe'"):
        require_family(pin)


def test_a_pin_that_is_only_a_version_is_refused_too():
    with pytest.raises(OSPinNotFamily, match="family such as"):
        require_family("26.3")


@pytest.mark.parametrize("pin", ["Tahoe", "golden-gate", "DevOS"])
def test_a_family_is_accepted_as_it_is(pin: str):
    assert require_family(pin) == pin


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("26.9", "26.10"),
        ("26.7-beta", "26.7"),
        ("26.7-beta1", "26.7-beta2"),
        ("26", "26.0"),
        ("26.6", "26.6.1"),
        ("15.6.1", "26.0"),
        ("beta", "1"),
        ("", "1"),
        ("26.7-rc.2", "26.7"),
    ],
)
def test_versions_are_compared_by_number_and_a_suffix_ranks_below_the_release(lower: str, higher: str):
    assert version_key(lower) < version_key(higher)


def test_the_newest_published_image_wins_over_a_newer_beta():
    assert newest_image(CATALOGUE, "tahoe").name == "macos-tahoe-26.10"


def test_the_newest_image_is_looked_for_among_those_of_the_server_type():
    assert newest_image(CATALOGUE, "Tahoe", "M2-L").name == "macos-tahoe-26.9"


def test_a_beta_is_taken_where_nothing_else_is_published():
    assert newest_image(CATALOGUE[4:], "Tahoe").name == "macos-tahoe-27.0-beta"


def test_a_legacy_exact_pin_resolves_to_its_family_so_that_old_machines_can_drain():
    assert newest_image(CATALOGUE, "macos-tahoe-26.3", "M4-S").name == "macos-tahoe-26.10"


def test_an_unpublished_family_is_an_error_that_names_those_there_are():
    with pytest.raises(OSNotPublished, match="DevOS, Linux, Sequoia, Tahoe") as raised:
        newest_image(CATALOGUE, "Sonoma")
    assert raised.value.families == ("DevOS", "Linux", "Sequoia", "Tahoe")


def test_the_version_counts_and_not_the_name():
    older_name = image("macos-sequoia-15.6", "Sequoia", "15.6.1")
    newer_name = image("macos-sequoia-15.6.0", "Sequoia", "15.6")
    assert newest_image((newer_name, older_name), "Sequoia") is older_name
