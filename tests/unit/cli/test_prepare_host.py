"""Whose key a Mac must show before it gets a person's password, by what the cluster knows of it."""

from typing import Any, cast

import pytest
from unit.cli.scene import Scene
from unit.hosts.made import SERVER_ID

from paddock.base.clock import SystemClock, rfc3339
from paddock.cli.connections import Problem, Reached
from paddock.cli.prepare_host import expected
from paddock.hosts.api import ScalewayAppleSiliconHost as Host

ADDRESS = "100.64.0.9"


def known(scene: Scene, **status: Any) -> None:
    change = {"status": {"ip": ADDRESS, **status}}
    scene.cluster.ask(lambda client: client.merge_patch(Host, SERVER_ID, change, "default", subresource="status"))


def asked(scene: Scene, address: str, name: str) -> tuple[Any, str | None]:
    return scene.cluster.ask(lambda client: expected(Reached(client, cast("Any", None), "default"), address, name))


@pytest.mark.parametrize("name", ["blue-1", ""])
def test_the_key_that_is_pinned_on_its_host(scene: Scene, name: str):
    known(scene, hostKey="SHA256:pinned")
    owner, host_key = asked(scene, ADDRESS, name)
    assert (owner.metadata.name if owner is not None else "") == name
    assert host_key == "SHA256:pinned"


def test_nobody_gets_the_password_of_a_host_whose_key_is_not_pinned(scene: Scene):
    known(scene)
    with pytest.raises(Problem, match=r"tuist.dev/trust-host-key"):
        asked(scene, ADDRESS, "blue-1")
    opened = {"openedAt": rfc3339(SystemClock().now()), "until": "2999-01-01T00:00:00Z", "evidence": "its install"}
    known(scene, firstContact=opened)
    with pytest.raises(Problem, match=r"is not pinned yet: the operator pins it"):
        asked(scene, ADDRESS, "")


def test_who_answers_at_an_address_that_the_cluster_does_not_know_is_believed(scene: Scene):
    assert asked(scene, "100.64.0.10", "") == (None, None)


def test_a_machine_without_a_host_gets_no_password(scene: Scene):
    with pytest.raises(Problem, match="no machine with a host"):
        asked(scene, ADDRESS, "blue-2")
