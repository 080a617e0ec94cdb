"""What every store promises, checked on both."""

import asyncio
import json
from collections.abc import Iterable

import pytest
from doubles.clocks import WITHIN
from integration.embedded.store.stores import AnyStore, OpenStore

from paddock.embedded.store import (
    Change,
    CompactedError,
    ExistsError,
    FutureRevisionError,
    Key,
    MissingError,
    Record,
    RevisionMismatchError,
    StoreError,
    StoreUnavailableError,
    Watch,
)


def pod(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def value(**spec: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "x"}}, "spec": spec}


def names(records: Iterable[Record]) -> list[str]:
    return [record.key.name for record in records]


async def take(watch: Watch, count: int) -> list[Change]:
    return [await asyncio.wait_for(anext(aiter(watch)), WITHIN) for _ in range(count)]


async def nothing_more(watch: Watch) -> bool:
    try:
        await asyncio.wait_for(anext(aiter(watch)), 0.02)
    except TimeoutError:
        return True
    return False


# Writing and reading


async def test_a_created_record_is_read_back_with_its_revision_in_its_metadata(store: AnyStore) -> None:
    record = await store.create(pod("a"), value(size=1))
    assert record == await store.get(pod("a"))
    assert record.revision == store.revision == 1
    decoded = json.loads(record.value)
    assert decoded["metadata"] == {"labels": {"app": "x"}, "resourceVersion": "1"}
    assert decoded["spec"] == {"size": 1}


async def test_a_record_that_is_not_there_reads_as_none(store: AnyStore) -> None:
    assert await store.get(pod("a")) is None


async def test_a_value_without_metadata_gets_some(store: AnyStore) -> None:
    record = await store.create(pod("a"), {"kind": "Pod"})
    assert json.loads(record.value) == {"kind": "Pod", "metadata": {"resourceVersion": "1"}}


async def test_text_of_every_kind_survives(store: AnyStore) -> None:
    text = "ü 🐎 \u0000 \\ \" ' {}, NULL \n"
    record = await store.create(Key("pods", "ns,{}\"'\\ ", 'NULL "\\'), value(text=text))
    assert json.loads(record.value)["spec"]["text"] == text
    assert await store.get(record.key) == record


async def test_creating_what_exists_is_refused_and_uses_no_revision(store: AnyStore) -> None:
    await store.create(pod("a"), value())
    with pytest.raises(ExistsError):
        await store.create(pod("a"), value())
    assert store.revision == 1
    assert (await store.create(pod("b"), value())).revision == 2


async def test_an_update_needs_the_revision_that_was_read(store: AnyStore) -> None:
    first = await store.create(pod("a"), value(n=1))
    second = await store.update(pod("a"), value(n=2), first.revision)
    assert second.revision == 2
    with pytest.raises(RevisionMismatchError):
        await store.update(pod("a"), value(n=3), first.revision)
    assert await store.get(pod("a")) == second


async def test_of_concurrent_updates_from_one_revision_exactly_one_wins(store: AnyStore) -> None:
    record = await store.create(pod("a"), value())
    answers = await asyncio.gather(
        *(store.update(pod("a"), value(n=n), record.revision) for n in range(20)), return_exceptions=True
    )
    won = [answer for answer in answers if isinstance(answer, Record)]
    assert won == [await store.get(pod("a"))]
    assert sum(isinstance(answer, RevisionMismatchError) for answer in answers) == 19


async def test_updating_or_deleting_what_is_not_there_is_refused(store: AnyStore) -> None:
    with pytest.raises(MissingError):
        await store.update(pod("a"), value(), 1)
    with pytest.raises(MissingError):
        await store.delete(pod("a"), 1)
    assert store.revision == 0


async def test_a_delete_gives_the_last_object_under_a_new_revision(store: AnyStore) -> None:
    record = await store.create(pod("a"), value(n=1))
    with pytest.raises(RevisionMismatchError):
        await store.delete(pod("a"), record.revision + 7)
    gone = await store.delete(pod("a"), record.revision)
    assert gone.revision == 2
    decoded = json.loads(gone.value)
    assert decoded["metadata"]["resourceVersion"] == "2"
    assert decoded["spec"] == {"n": 1}
    assert await store.get(pod("a")) is None


async def test_a_deleted_name_can_be_created_again(store: AnyStore) -> None:
    record = await store.create(pod("a"), value())
    await store.delete(pod("a"), record.revision)
    assert (await store.create(pod("a"), value())).revision == 3


async def test_the_same_name_in_another_resource_or_namespace_is_another_record(store: AnyStore) -> None:
    keys = [pod("a"), pod("a", "other"), Key("nodes", "", "a")]
    for key in keys:
        await store.create(key, value())
    assert [record.key for key in keys if (record := await store.get(key))] == keys


async def test_concurrent_writers_get_every_revision_exactly_once(store: AnyStore) -> None:
    records = await asyncio.gather(*(store.create(pod(f"p{n:03}"), value()) for n in range(200)))
    assert sorted(record.revision for record in records) == list(range(1, 201))
    assert store.revision == 200


async def test_a_create_and_a_delete_that_wait_together_both_happen(store: AnyStore) -> None:
    blocker = asyncio.create_task(store.create(pod("z"), value()))
    created = asyncio.create_task(store.create(pod("a"), value()))
    deleted = asyncio.create_task(store.delete(pod("a"), 2))
    again = asyncio.create_task(store.create(pod("a"), value(n=2)))
    records = await asyncio.gather(blocker, created, deleted, again)
    assert [record.revision for record in records] == [1, 2, 3, 4]
    assert await store.get(pod("a")) == records[3]


async def test_a_value_that_json_cannot_express_fails_its_own_caller_only(store: AnyStore) -> None:
    answers = await asyncio.gather(
        store.create(pod("a"), value()),
        store.create(pod("b"), value(bad=object())),
        store.create(pod("c"), value()),
        return_exceptions=True,
    )
    assert isinstance(answers[1], TypeError)
    assert names((await store.list("pods")).records) == ["a", "c"]
    assert store.revision == 2


@pytest.mark.parametrize("key", [pod("a\0b"), pod("\ud800"), pod("x" * 2500)])
async def test_a_key_that_cannot_be_kept_is_refused_by_name(store: AnyStore, key: Key) -> None:
    with pytest.raises(ValueError, match="key"):
        await store.create(key, value())
    assert store.revision == 0


async def test_a_cancelled_caller_does_not_disturb_the_others(store: AnyStore) -> None:
    writes = [asyncio.create_task(store.create(pod(f"p{n}"), value())) for n in range(30)]
    await asyncio.sleep(0)
    for write in writes[::3]:
        write.cancel()
    answers = await asyncio.gather(*writes, return_exceptions=True)
    kept = names((await store.list("pods")).records)
    for n, answer in enumerate(answers):
        if n % 3:
            assert isinstance(answer, Record)
            assert f"p{n}" in kept
    assert (await store.create(pod("later"), value())).revision == store.revision


# Listing


async def test_a_list_is_ordered_by_namespace_and_name(store: AnyStore) -> None:
    for namespace, name in [("b", "a"), ("a", "z"), ("a-b", "m"), ("a", "b"), ("", "cluster")]:
        await store.create(pod(name, namespace), value())
    page = await store.list("pods")
    assert [tuple(record.key[1:]) for record in page.records] == [
        ("", "cluster"), ("a", "b"), ("a", "z"), ("a-b", "m"), ("b", "a"),
    ]  # fmt: skip
    assert (page.revision, page.remaining) == (5, 0)


async def test_a_list_of_one_namespace_shows_no_other(store: AnyStore) -> None:
    for namespace in ("a", "a-b", "aa", "b"):
        await store.create(pod("x", namespace), value())
    page = await store.list("pods", "a")
    assert [record.key.namespace for record in page.records] == ["a"]
    assert (await store.list("pods", "nowhere")).records == ()
    assert (await store.list("nothing")).records == ()


async def test_pages_cover_a_list_without_gap_or_overlap(store: AnyStore) -> None:
    for n in range(7):
        await store.create(pod(f"p{n}", "even" if n % 2 == 0 else "odd"), value())
    for namespace, expected in ((None, 7), ("even", 4), ("odd", 3)):
        seen: list[str] = []
        after = None
        while True:
            page = await store.list("pods", namespace, limit=2, after=after)
            seen += names(page.records)
            assert page.remaining == expected - len(seen)
            if not page.remaining:
                break
            after = page.records[-1].key[1:]
        assert len(set(seen)) == len(seen) == expected


async def test_a_list_at_an_older_revision_shows_the_state_of_then(store: AnyStore) -> None:
    a = await store.create(pod("a"), value(n=1))
    b = await store.create(pod("b"), value(n=1))
    c = await store.create(pod("c"), value(n=1))
    snapshot = await store.list("pods")
    a2 = await store.update(pod("a"), value(n=2), a.revision)
    await store.update(pod("a"), value(n=3), a2.revision)
    await store.delete(pod("b"), b.revision)
    await store.create(pod("b"), value(n=9))
    await store.create(pod("bb"), value())
    await store.delete(pod("c"), c.revision)
    await store.create(Key("nodes", "", "n"), value())
    assert await store.list("pods", revision=3) == snapshot
    first = await store.list("pods", limit=1, revision=3)
    assert (names(first.records), first.remaining, first.revision) == (["a"], 2, 3)
    rest = await store.list("pods", "default", limit=5, after=("default", "a"), revision=3)
    assert (names(rest.records), rest.remaining) == (["b", "c"], 0)
    assert (await store.list("pods", revision=0)).records == ()
    assert names((await store.list("pods", revision=store.revision)).records) == ["a", "b", "bb"]


async def test_a_list_at_a_revision_to_come_is_refused(store: AnyStore) -> None:
    with pytest.raises(FutureRevisionError):
        await store.list("pods", revision=1)


async def test_a_list_beyond_the_kept_history_is_refused(open_store: OpenStore) -> None:
    store = await open_store(history_limit=3)
    for n in range(6):
        await store.create(pod(f"p{n}"), value())
    assert len((await store.list("pods", revision=3)).records) == 3
    with pytest.raises(CompactedError):
        await store.list("pods", revision=2)


# Watching


async def test_a_watch_delivers_every_later_change_in_order_with_what_was_before(store: AnyStore) -> None:
    before = await store.create(pod("before"), value())
    async with store.watch("pods", after=store.revision) as watch:
        a = await store.create(pod("a"), value(n=1))
        a2 = await store.update(pod("a"), value(n=2), a.revision)
        gone = await store.delete(pod("before"), before.revision)
        assert await take(watch, 3) == [
            Change("ADDED", 2, a, None),
            Change("MODIFIED", 3, a2, a),
            Change("DELETED", 4, gone, before),
        ]
        assert await nothing_more(watch)


async def test_a_watch_from_an_older_revision_replays_history_and_goes_on(store: AnyStore) -> None:
    for n in range(5):
        await store.create(pod(f"p{n}"), value())
    async with store.watch("pods", after=2) as watch:
        await store.create(pod("p5"), value())
        assert [change.revision for change in await take(watch, 4)] == [3, 4, 5, 6]
        assert await nothing_more(watch)


async def test_a_watch_shows_its_resource_its_namespace_and_what_is_wanted(store: AnyStore) -> None:
    async with store.watch("pods", "a", after=0, wanted=lambda key: key.name.startswith("x")) as watch:
        for key in [pod("x1", "a"), pod("x2", "b"), pod("y", "a"), Key("nodes", "a", "x3"), pod("x4", "a")]:
            await store.create(key, value())
        assert [change.record.key.name for change in await take(watch, 2)] == ["x1", "x4"]
        assert await nothing_more(watch)
    async with store.watch("pods", "a", after=0, wanted=lambda key: key.name.startswith("x")) as watch:
        assert [change.record.key.name for change in await take(watch, 2)] == ["x1", "x4"]


async def test_many_watches_see_the_same_changes_while_writers_compete(store: AnyStore) -> None:
    async def follow(after: int) -> list[int]:
        async with store.watch("pods", after=after) as watch:
            return [change.revision for change in await take(watch, 120 - after)]

    followers = [asyncio.create_task(follow(0)) for _ in range(5)]
    await asyncio.gather(*(store.create(pod(f"p{n}"), value()) for n in range(60)))
    followers.append(asyncio.create_task(follow(30)))
    await asyncio.gather(*(store.create(pod(f"q{n}"), value()) for n in range(60)))
    seen = await asyncio.gather(*followers)
    assert seen == [list(range(1, 121))] * 5 + [list(range(31, 121))]


async def test_a_change_is_readable_when_a_watch_delivers_it_and_when_its_writer_is_answered(store: AnyStore) -> None:
    async with store.watch("pods", after=0) as watch:
        write = asyncio.create_task(store.create(pod("a"), value()))
        (change,) = await take(watch, 1)
        assert await store.get(pod("a")) == change.record == await write


async def test_cancelling_a_waiting_consumer_loses_nothing(store: AnyStore) -> None:
    async with store.watch("pods", after=0) as watch:
        assert await nothing_more(watch)
        await store.create(pod("a"), value())
        assert [change.revision for change in await take(watch, 1)] == [1]


async def test_a_watch_knows_up_to_which_revision_it_has_delivered(store: AnyStore) -> None:
    async with store.watch("pods", after=0) as watch:
        await store.create(Key("nodes", "", "n"), value())
        assert watch.revision == 1
        await store.create(pod("a"), value())
        await store.create(Key("nodes", "", "m"), value())
        assert watch.revision == 1
        await take(watch, 1)
        assert watch.revision == 3
    async with store.watch("pods", after=0) as watch:
        assert watch.revision == 1
        await take(watch, 1)
        assert watch.revision == 3


async def test_a_watch_from_a_revision_to_come_is_refused(store: AnyStore) -> None:
    with pytest.raises(FutureRevisionError):
        async with store.watch("pods", after=1):
            pass


async def test_a_watch_from_beyond_the_kept_history_is_refused(open_store: OpenStore) -> None:
    store = await open_store(history_limit=3)
    for n in range(6):
        await store.create(pod(f"p{n}"), value())
    with pytest.raises(CompactedError):
        async with store.watch("pods", after=2):
            pass
    async with store.watch("pods", after=3) as watch:
        assert [change.revision for change in await take(watch, 3)] == [4, 5, 6]


async def test_a_consumer_that_falls_too_far_behind_is_told_so_and_others_are_not_hurt(open_store: OpenStore) -> None:
    store = await open_store(queue_limit=3)
    async with store.watch("pods", after=0) as slow, store.watch("pods", after=0) as quick:
        for n in range(5):
            await store.create(pod(f"p{n}"), value())
            assert [change.revision for change in await take(quick, 1)] == [n + 1]
        assert slow.revision == 0
        for _ in range(2):
            with pytest.raises(CompactedError):
                await anext(aiter(slow))
        await store.create(pod("later"), value())
        with pytest.raises(CompactedError):
            await anext(aiter(slow))


async def test_a_long_replay_does_not_count_as_falling_behind(open_store: OpenStore) -> None:
    store = await open_store(queue_limit=3)
    for n in range(10):
        await store.create(pod(f"p{n}"), value())
    async with store.watch("pods", after=0) as watch:
        await store.create(pod("p10"), value())
        assert [change.revision for change in await take(watch, 11)] == list(range(1, 12))


async def test_a_faulty_filter_ends_its_own_watch_only(store: AnyStore) -> None:
    def faulty(key: Key) -> bool:
        raise RuntimeError(key.name)

    async with store.watch("pods", after=0, wanted=faulty) as bad, store.watch("pods", after=0) as good:
        await store.create(pod("a"), value())
        assert [change.revision for change in await take(good, 1)] == [1]
        with pytest.raises(StoreError):
            await anext(aiter(bad))


# Compacting and closing


async def test_compacting_forgets_history_up_to_a_revision_and_no_record(store: AnyStore) -> None:
    for n in range(5):
        await store.create(pod(f"p{n}"), value())
    async with store.watch("pods", after=0) as running:
        await store.compact(3)
        assert len((await store.list("pods")).records) == 5
        assert len((await store.list("pods", revision=3)).records) == 3
        with pytest.raises(CompactedError):
            await store.list("pods", revision=2)
        with pytest.raises(CompactedError):
            async with store.watch("pods", after=2):
                pass
        async with store.watch("pods", after=3) as watch:
            assert [change.revision for change in await take(watch, 2)] == [4, 5]
        await store.compact(1)  # older than what is gone already
        with pytest.raises(FutureRevisionError):
            await store.compact(6)
        assert [change.revision for change in await take(running, 5)] == [1, 2, 3, 4, 5]


async def test_closing_ends_watches_after_what_they_were_owed_and_refuses_writes(store: AnyStore) -> None:
    async with store.watch("pods", after=0) as watch:
        await store.create(pod("a"), value())
        waiting = asyncio.create_task(_drain(watch))
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.wait_for(waiting, WITHIN) == [1]
    with pytest.raises(StoreUnavailableError):
        await store.create(pod("b"), value())
    with pytest.raises(StoreUnavailableError):
        await store.get(pod("a"))
    await store.close()


async def _drain(watch: Watch) -> list[int]:
    return [change.revision async for change in watch]
