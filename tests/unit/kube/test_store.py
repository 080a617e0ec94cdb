"""The cache and its indices against the plainest model of them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from unit.kube.things import Thing, ThingSpec

from paddock.kube.objects import ObjectMeta
from paddock.kube.store import Store, by_label

OBJECTS = st.builds(
    lambda name, uid, version, size: Thing(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"{name}{uid}", resource_version=str(version)),
        spec=ThingSpec(size=size),
    ),
    st.sampled_from("abc"),
    st.integers(0, 1),
    st.integers(0, 5),
    st.integers(0, 2),
)
LISTS = st.lists(OBJECTS, max_size=4).map(lambda objects: {("ns", o.metadata.name): o for o in objects})


@given(st.lists(st.one_of(OBJECTS, LISTS, st.sampled_from("abc")), max_size=20))
def test_replaying_the_changes_gives_the_cache_and_indices_agree_with_it(steps):
    store: Store[Thing] = Store({"size": lambda obj: [str(obj.spec.size)]})
    replayed: dict[str, Thing] = {}
    for step in steps:
        if isinstance(step, Thing):
            changes = store.put(step)
        elif isinstance(step, dict):
            changes = store.replace(step)
            assert {o.metadata.name for o in store} == {name for _, name in step}
        else:
            changes = store.remove(("ns", step))
        for change in changes:
            name = change.obj.metadata.name
            if change.kind == "added":
                assert name not in replayed
                assert change.old is None
            else:
                assert change.old is not None
                assert replayed[name].metadata.uid == change.old.metadata.uid
            if change.new is None:
                del replayed[name]
            else:
                replayed[name] = change.new
        assert replayed == {o.metadata.name: o for o in store}
        for size in "012":
            found = {o.metadata.name for o in store.by_index("size", size)}
            assert found == {o.metadata.name for o in store if str(o.spec.size) == size}


def test_objects_are_found_by_label():
    obj = Thing(metadata=ObjectMeta(name="a", labels={"pool": "x"}))
    assert list(by_label("pool")(obj)) == ["x"]
    assert list(by_label("other")(obj)) == []


def test_cached_objects_cannot_be_changed():
    obj = Thing(metadata=ObjectMeta(name="a"))
    try:
        obj.metadata.name = "b"  # type: ignore[misc]
    except AttributeError:
        pass
    else:
        raise AssertionError("frozen")
    assert msgspec.structs.replace(obj, metadata=ObjectMeta(name="b")).metadata.name == "b"
