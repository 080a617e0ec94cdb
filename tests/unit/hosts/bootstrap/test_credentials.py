import pytest
from msgspec.structs import replace
from unit.hosts.made import OTHER_ID, SERVER_ID, later, machine

from paddock.base.secrets import Password
from paddock.clients.scaleway import Credentials
from paddock.hosts.bootstrap.credentials import HostLogins
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta

MACHINE = machine("mac-1", server_id=SERVER_ID, bound_at=later())
LOGIN = Credentials("m1", Password("right"))


async def test_what_is_written_is_read_and_forgotten(client: Client):
    logins = HostLogins(client)
    assert await logins.read(MACHINE) is None
    for _ in range(2):
        await logins.write(MACHINE, LOGIN)
        assert await logins.read(MACHINE) == LOGIN
    for _ in range(2):
        await logins.forget(MACHINE)
        assert await logins.read(MACHINE) is None


async def test_a_password_counts_for_the_claim_alone_that_it_was_given_for(client: Client):
    logins = HostLogins(client)
    await logins.write(MACHINE, LOGIN)
    for other in (
        replace(MACHINE, status=replace(MACHINE.status, server_id=OTHER_ID)),
        replace(MACHINE, status=replace(MACHINE.status, bound_at=later(hours=1))),
        machine("mac-1"),
    ):
        assert await logins.read(other) is None


async def test_a_password_without_the_mark_of_a_claim_counts_for_none(client: Client):
    meta = ObjectMeta(name="mac-1-bootstrap", namespace="default")
    await client.create(SecretObject(metadata=meta, data={"sudo-password": b"another", "ssh-username": b"m1"}))
    assert await HostLogins(client).read(MACHINE) is None


@pytest.mark.parametrize("text", [b"<sealed>", b""])
async def test_a_marker_that_was_stored_once_counts_as_no_password(client: Client, text: bytes):
    logins = HostLogins(client)
    await logins.write(MACHINE, LOGIN)
    await client.merge_patch(SecretObject, "mac-1-bootstrap", {"data": {"sudo-password": text}}, "default")
    kept = await logins.read(MACHINE)
    assert kept is not None
    assert kept.password is None
