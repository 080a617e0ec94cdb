"""When a host's SSH key may be believed without having been seen before."""

from msgspec.structs import replace
from unit.hosts.made import NOW, later

from paddock.hosts.api import HostStatus, ScalewayAppleSiliconHost
from paddock.hosts.first_contact import TRUSTED_KEY, WINDOW, Believe, Known, Refuse, first_contact, opened
from paddock.kube.objects import ObjectMeta

WIPED = opened(NOW, "the wipe that was asked for at 2026-01-01 00:00 UTC ended")


def host(status: HostStatus, **annotations: str) -> ScalewayAppleSiliconHost:
    return ScalewayAppleSiliconHost(metadata=ObjectMeta(name="host-1", annotations=annotations), status=status)


def test_a_pinned_key_is_the_only_one_window_or_not():
    pinned = HostStatus(host_key="SHA256:a", first_contact=WIPED)
    assert first_contact(host(pinned), NOW) == Known("SHA256:a")
    assert first_contact(host(replace(pinned, first_contact=None)), later(hours=99)) == Known("SHA256:a")


def test_the_first_key_is_believed_within_the_window_and_not_a_moment_longer():
    status = HostStatus(first_contact=WIPED)
    end = NOW + WINDOW
    assert first_contact(host(status), NOW) == Believe(end)
    assert isinstance(first_contact(host(status), end), Refuse)


def test_a_refusal_says_since_when_why_and_what_to_do():
    refused = first_contact(host(HostStatus(first_contact=WIPED)), later(hours=3))
    assert isinstance(refused, Refuse)
    for part in ("host-1", "2 h 00 min after the wipe", "release it", f"kubectl annotate sash host-1 {TRUSTED_KEY}="):
        assert part in refused.message


def test_a_host_of_which_no_install_is_known_is_not_believed():
    assert isinstance(first_contact(host(HostStatus()), NOW), Refuse)


def test_a_person_may_vouch_for_a_key_but_an_old_word_does_not_count_after_a_new_install():
    vouched = {TRUSTED_KEY: "SHA256:b"}
    late = HostStatus(first_contact=WIPED)
    assert first_contact(host(late, **vouched), later(hours=3)) == Known("SHA256:b")
    assert isinstance(first_contact(host(late, **vouched), NOW), Believe)
