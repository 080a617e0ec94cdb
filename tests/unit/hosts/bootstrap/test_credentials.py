import pytest

from paddock.base.secrets import Password
from paddock.hosts.bootstrap.credentials import HostCredentials, HostLogins, which_password
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta

OLD, NEW = Password("old"), Password("new")


@pytest.mark.parametrize(
    ("stored", "fetched", "used"),
    [
        (None, None, None),
        (None, NEW, NEW),
        (HostCredentials(password=OLD), NEW, NEW),
        (HostCredentials(password=OLD), None, OLD),
        (HostCredentials(password=OLD, told_by_operator=True), NEW, OLD),
        (HostCredentials(password=None, told_by_operator=True), NEW, NEW),
    ],
)
def test_a_persons_word_counts_more_than_the_clouds_and_the_clouds_more_than_a_memory(stored, fetched, used):
    assert which_password(stored, fetched) == used


async def test_what_is_written_is_read_and_removed(client: Client):
    logins = HostLogins(client, namespace="default")
    assert await logins.read("mac-1") is None
    wanted = HostCredentials(password=NEW, host_key="SHA256:x", told_by_operator=True)
    await logins.write("mac-1", wanted)
    assert await logins.read("mac-1") == wanted
    await logins.remove("mac-1")
    await logins.remove("mac-1")
    assert await logins.read("mac-1") is None


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
