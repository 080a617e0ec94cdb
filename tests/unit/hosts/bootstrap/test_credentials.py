import pytest

from paddock.base.secrets import Password
from paddock.hosts.bootstrap.credentials import HostCredentials, HostLogins
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta

OLD, NEW = Password("old"), Password("new")


async def test_what_is_written_is_read(client: Client):
    logins = HostLogins(client, namespace="default")
    assert await logins.read("mac-1") is None
    wanted = HostCredentials(password=NEW, host_key="SHA256:x", told_by_operator=True)
    await logins.write("mac-1", wanted)
    assert await logins.read("mac-1") == wanted


async def test_a_sealed_answer_never_erases_a_good_password(client: Client):
    logins = HostLogins(client, namespace="default")
    await logins.write("mac-1", HostCredentials(password=OLD, host_key="SHA256:x"))
    await logins.write("mac-1", HostCredentials(password=None))
    kept = await logins.read("mac-1")
    assert kept is not None
    assert kept.password == OLD
    assert kept.host_key == "SHA256:x"


@pytest.mark.parametrize("text", [b"<sealed>", b""])
async def test_a_marker_that_was_stored_once_counts_as_no_password(client: Client, text: bytes):
    meta = ObjectMeta(name="mac-1-bootstrap", namespace="default")
    await client.create(SecretObject(metadata=meta, data={"sudo-password": text, "ssh-username": b"m1"}))
    kept = await HostLogins(client, namespace="default").read("mac-1")
    assert kept is not None
    assert kept.password is None
