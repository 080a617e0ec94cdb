"""Fresh and cached reads are told apart by type."""

from unit.kube.fake_api import FakeApi
from unit.kube.things import COLLECTION, Thing, client_of, raw, thing

from paddock.kube.client import Client
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import Store


async def test_a_fresh_reader_asks_the_server_every_time():
    api = FakeApi()
    api.put(COLLECTION, raw("a", size=1))
    reader = FreshReader(client_of(api))
    first = await reader.get(Thing, "a", "ns")
    api.put(COLLECTION, raw("a", size=2))
    second = await reader.get(Thing, "a", "ns")
    assert first is not None
    assert second is not None
    assert (first.spec.size, second.spec.size) == (1, 2)
    assert [obj.spec.size for obj in (await reader.list(Thing, "ns")).items] == [2]
    assert await reader.get(Thing, "b", "ns") is None


def test_a_cached_reader_answers_from_the_store():
    store: Store[Thing] = Store()
    reader = CachedReader(store)
    store.put(thing("a"))
    store.put(thing("b", namespace="other"))
    assert reader.get("a", "ns") == thing("a")
    assert reader.get("a", "other") is None
    assert [obj.metadata.name for obj in reader.list("other")] == ["b"]
    assert len(reader.list()) == len(reader) == 2


def test_neither_can_stand_in_for_the_other():
    # basedpyright refuses it; this keeps somebody from making one a subclass of the other, or of a shared base.
    assert set(FreshReader.__mro__) & set(CachedReader.__mro__) <= {object}
    assert not issubclass(Client, FreshReader)
