"""The informer against a server that counts: what is in the cache, what handlers hear, and that nothing spins."""

import asyncio
import json
import random
from itertools import pairwise

import pytest
import structlog
from unit.kube.fake_api import Answer, AwayError, Call, FakeApi, status
from unit.kube.things import COLLECTION, Thing, client_of, raw, running, until
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock
from paddock.kube.informer import Informer
from paddock.kube.store import CacheChange


def informer_of(api: FakeApi, **options) -> Informer[Thing]:
    return Informer(client_of(api), Thing, clock=LoopClock(), rng=random.Random(1), **options)


def record(informer: Informer[Thing]) -> list[tuple[str, str]]:
    heard: list[tuple[str, str]] = []
    informer.add_handler(lambda change: heard.append((change.kind, change.obj.metadata.name)))
    return heard


def names(informer: Informer[Thing]) -> list[str]:
    return sorted(obj.metadata.name for obj in informer.reader.list())


def refusing(verb: str, answer: Answer):
    return lambda call: answer if call.verb == verb else None


# --- the four probes that every Python watch loop tried failed at least one of -----------------------------------------


@virtual
async def test_a_delete_in_the_gap_of_a_410_inside_the_stream_is_seen_after_the_relist():
    api = FakeApi()
    for name in "abc":
        api.put(COLLECTION, raw(name))
    informer = informer_of(api)
    heard = record(informer)
    async with running(informer.run()):
        await informer.synced.wait()
        # While nobody watches, `b` goes and the past is forgotten.
        api.cut_watches()
        await asyncio.sleep(0.01)
        api.remove(COLLECTION, "b", "ns")
        api.put(COLLECTION, raw("a", size=2))
        api.compact()
        await until(lambda: names(informer) == ["a", "c"], within=30)
        api.put(COLLECTION, raw("d"))
        await until(lambda: names(informer) == ["a", "c", "d"], within=30)
    assert heard == [("added", "a"), ("added", "b"), ("added", "c"), ("deleted", "b"), ("updated", "a"), ("added", "d")]
    assert api.count("list") == 2
    assert api.count("watch") == 3


@virtual
async def test_a_410_as_an_http_status_leads_to_the_same_relist():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    gone = [status(410, "Expired", "too old")]
    api.faults.append(lambda call: gone.pop() if call.verb == "watch" and gone else None)
    informer = informer_of(api)
    async with running(informer.run()):
        await until(lambda: api.count("watch") == 2, within=30)
        assert informer.relists == 2
        assert informer.problem is None


@virtual
async def test_a_server_that_always_answers_410_is_asked_ever_more_rarely():
    api = FakeApi()
    api.faults.append(refusing("watch", status(410, "Expired")))
    async with running(informer_of(api).run()):
        await asyncio.sleep(600)
    assert 10 < len(api.calls) < 60


@virtual
async def test_a_server_that_goes_away_and_comes_back_is_followed_again_without_a_storm():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    informer = informer_of(api)
    away: list[bool] = []

    def fault(_call: Call) -> Answer | None:
        if away:
            raise AwayError
        return None

    api.faults.append(fault)
    async with running(informer.run()):
        await informer.synced.wait()
        away.append(True)
        api.cut_watches()
        before = len(api.calls)
        await asyncio.sleep(300)
        attempts = len(api.calls) - before
        assert 5 <= attempts <= 20
        assert informer.problem is not None
        assert "does not answer" in informer.problem
        away.clear()
        api.put(COLLECTION, raw("b"))
        await until(lambda: names(informer) == ["a", "b"], within=60)
        assert informer.problem is None
    assert informer.relists == 1, "a broken connection resumes from the last version"


@virtual
async def test_a_watch_that_answers_500_is_retried_with_backoff_and_listed_again():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    api.faults.append(refusing("watch", status(500, "InternalError", "no")))
    informer = informer_of(api)
    async with running(informer.run()):
        await asyncio.sleep(300)
        watches = [call.at for call in api.calls if call.verb == "watch"]
        assert 8 <= len(watches) <= 20
        gaps = [later - earlier for earlier, later in pairwise(watches)]
        assert gaps[0] >= 0.8
        assert max(gaps) <= 46
        assert informer.problem is not None
        assert "500" in informer.problem
        api.faults.clear()
        api.put(COLLECTION, raw("b"))
        await until(lambda: names(informer) == ["a", "b"], within=60)


@virtual
async def test_a_clean_end_is_followed_by_another_watch_from_the_last_version():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    informer = informer_of(api)
    async with running(informer.run()):
        await asyncio.sleep(3600)
        assert 5 <= api.count("watch") <= 13, "one watch lives 300 to 600 seconds"
        assert api.count("list") == 1
        timeouts = {call.query["timeoutSeconds"] for call in api.calls if call.verb == "watch"}
        assert len(timeouts) > 3
        assert all(300 <= int(each) <= 600 for each in timeouts)
        assert all(call.query["allowWatchBookmarks"] == "true" for call in api.calls if call.verb == "watch")
        api.put(COLLECTION, raw("b"))
        await until(lambda: "b" in names(informer))


@virtual
async def test_a_server_that_ends_every_watch_at_once_is_not_hammered():
    api = FakeApi()

    async def nothing():
        return
        yield b""

    api.faults.append(lambda call: Answer(200, nothing()) if call.verb == "watch" else None)
    async with running(informer_of(api).run()):
        await asyncio.sleep(300)
    assert 8 <= api.count("watch") <= 20


@virtual
async def test_a_proxy_that_cuts_streams_every_fifty_seconds_does_not_make_us_blind():
    api = FakeApi()
    informer = informer_of(api)
    async with running(informer.run()):
        await informer.synced.wait()
        for _ in range(20):
            await asyncio.sleep(50)
            api.cut_watches()
        before = api.count("watch")
        await asyncio.sleep(2)
        assert api.count("watch") == before + 1


# --- stalls, bookmarks, refusals ---------------------------------------------------------------------------------------


@virtual
async def test_a_stream_that_stalls_is_left_after_the_servers_own_timeout():
    api = FakeApi()

    async def silence():
        await asyncio.Event().wait()
        yield b""

    stalled = [True]
    api.faults.append(
        lambda call: Answer(200, silence()) if call.verb == "watch" and stalled and stalled.pop() else None
    )
    informer = informer_of(api)
    async with running(informer.run()):
        await informer.synced.wait()
        await asyncio.sleep(1)
        assert api.count("watch") == 1
        await asyncio.sleep(635)
        assert api.count("watch") == 2
        api.put(COLLECTION, raw("a"))
        await until(lambda: names(informer) == ["a"])


@virtual
async def test_a_stream_that_falls_silent_after_a_bookmark_is_left_sooner():
    api = FakeApi()

    async def one_bookmark():
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}}).encode() + b"\n"
        await asyncio.Event().wait()

    first = [True]
    api.faults.append(
        lambda call: Answer(200, one_bookmark()) if call.verb == "watch" and first and first.pop() else None
    )
    async with running(informer_of(api).run()):
        await asyncio.sleep(205)
    watches = [call for call in api.calls if call.verb == "watch"]
    assert len(watches) == 2
    assert watches[1].query["resourceVersion"] == "777", "a bookmark is where the next watch begins"


@virtual
async def test_retry_after_is_honoured():
    api = FakeApi()
    busy = Answer(429, b'{"kind":"Status","code":429,"reason":"TooManyRequests"}', {"Retry-After": "17"})
    answers = [busy]
    api.faults.append(lambda call: answers.pop() if answers else None)
    async with running(informer_of(api).run()):
        await asyncio.sleep(30)
    assert api.calls[1].at - api.calls[0].at >= 17


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (Answer(404, b"404 page not found"), "install the CustomResourceDefinitions"),
        (status(403, "Forbidden", "things is forbidden"), "grant get, list and watch on things"),
        (status(401, "Unauthorized"), "renew the token"),
    ],
)
def test_a_refusal_is_logged_once_names_the_remedy_and_heals(answer: Answer, remedy: str):
    @virtual
    async def scenario():
        api = FakeApi()
        api.put(COLLECTION, raw("a"))
        api.faults.append(lambda _call: answer)
        informer = informer_of(api)
        with structlog.testing.capture_logs() as logs:
            async with running(informer.run()):
                await asyncio.sleep(600)
                assert not informer.synced.is_set()
                assert informer.problem is not None
                assert remedy in informer.problem
                assert len(api.calls) < 40
                assert len([line for line in logs if line["log_level"] == "warning"]) == 1
                api.faults.clear()
                await asyncio.wait_for(informer.synced.wait(), 60)
                await asyncio.sleep(90)
                assert informer.problem is None
        assert [line["event"] for line in logs] == ["the cache does not follow", "the cache follows again"]

    scenario()


# --- lists -------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_list_is_read_in_pages():
    api = FakeApi()
    for number in range(1203):
        api.put(COLLECTION, raw(f"t{number}"))
    informer = informer_of(api)
    async with running(informer.run()):
        await informer.synced.wait()
        assert len(informer.reader) == 1203
    assert [call.query["limit"] for call in api.calls if call.verb == "list"] == ["500"] * 3


@virtual
async def test_a_continue_token_that_expires_restarts_the_list():
    api = FakeApi()
    for number in range(10):
        api.put(COLLECTION, raw(f"t{number}"))
    informer = informer_of(api)
    informer.PAGE_SIZE = 4
    once = [True]

    def compact_after_the_first_page(call: Call) -> None:
        if "continue" in call.query and once:
            once.clear()
            api.remove(COLLECTION, "t0", "ns")
            api.compact()

    api.faults.append(compact_after_the_first_page)
    async with running(informer.run()):
        await informer.synced.wait()
        assert len(informer.reader) == 9
    assert api.count("list") == 2 + 3


@virtual
async def test_a_list_that_always_expires_does_not_spin():
    api = FakeApi()
    for number in range(10):
        api.put(COLLECTION, raw(f"t{number}"))
    api.faults.append(lambda call: status(410, "Expired") if "continue" in call.query else None)
    informer = informer_of(api)
    informer.PAGE_SIZE = 4
    async with running(informer.run()):
        await asyncio.sleep(300)
        assert not informer.synced.is_set(), "half a list is no list"
    assert len(api.calls) < 100


@virtual
async def test_an_object_recreated_in_a_gap_is_a_deletion_and_an_addition():
    api = FakeApi()
    api.put(COLLECTION, raw("a", uid="one"))
    informer = informer_of(api)
    heard = record(informer)
    async with running(informer.run()):
        await informer.synced.wait()
        api.cut_watches()
        await asyncio.sleep(0.01)
        api.remove(COLLECTION, "a", "ns")
        api.put(COLLECTION, raw("a", uid="two"))
        api.compact()
        await until(lambda: len(heard) == 3, within=30)
    assert heard == [("added", "a"), ("deleted", "a"), ("added", "a")]


# --- what handlers and readers see -------------------------------------------------------------------------------------


@virtual
async def test_handlers_get_old_and_new():
    api = FakeApi()
    api.put(COLLECTION, raw("a", size=1))
    informer = informer_of(api)
    changes: list[CacheChange[Thing]] = []
    informer.add_handler(changes.append)
    async with running(informer.run()):
        await informer.synced.wait()
        api.put(COLLECTION, raw("a", size=2))
        await until(lambda: len(changes) == 2)
        api.remove(COLLECTION, "a", "ns")
        await until(lambda: len(changes) == 3)
    sides = [(c.kind, c.old and c.old.spec.size, c.new and c.new.spec.size) for c in changes]
    assert sides == [("added", None, 1), ("updated", 1, 2), ("deleted", 2, None)]


@virtual
async def test_a_handler_that_raises_costs_the_others_nothing():
    api = FakeApi()
    informer = informer_of(api)
    informer.add_handler(lambda _change: 1 / 0)  # type: ignore[arg-type]
    heard = record(informer)
    with structlog.testing.capture_logs():
        async with running(informer.run()):
            await informer.synced.wait()
            api.put(COLLECTION, raw("a"))
            api.put(COLLECTION, raw("b"))
            await until(lambda: len(heard) == 2)


@virtual
async def test_a_late_handler_hears_what_is_there_already():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    informer = informer_of(api)
    async with running(informer.run()):
        await informer.synced.wait()
        assert record(informer) == [("added", "a")]


@virtual
async def test_indices_follow_every_change():
    api = FakeApi()
    informer = informer_of(api, indexers={"size": lambda obj: [str(obj.spec.size)]})
    async with running(informer.run()):
        await informer.synced.wait()
        for name in "ab":
            api.put(COLLECTION, raw(name, size=1))
        await until(lambda: len(informer.reader.by_index("size", "1")) == 2)
        api.put(COLLECTION, raw("a", size=2))
        api.remove(COLLECTION, "b", "ns")
        await until(lambda: [o.metadata.name for o in informer.reader.by_index("size", "2")] == ["a"])
        assert informer.reader.by_index("size", "1") == []


@virtual
async def test_an_object_that_does_not_fit_is_named_and_never_taken_for_deleted():
    api = FakeApi()
    api.put(COLLECTION, raw("bad", size=1))
    api.put(COLLECTION, raw("good"))
    informer = informer_of(api)
    with structlog.testing.capture_logs() as logs:
        async with running(informer.run()):
            await informer.synced.wait()
            api.put(COLLECTION, {"metadata": {"name": "bad", "namespace": "ns"}, "spec": {"size": "huge"}})
            api.put(COLLECTION, raw("good", size=7))
            await until(lambda: informer.reader.get("good", "ns").spec.size == 7)  # type: ignore[union-attr]
            assert informer.reader.get("bad", "ns").spec.size == 1  # type: ignore[union-attr]
            assert list(informer.unreadable) == [("ns", "bad")]
            api.compact()
            api.cut_watches()
            await until(lambda: informer.relists == 2, within=30)
            assert informer.reader.get("bad", "ns").spec.size == 1  # type: ignore[union-attr]
            api.put(COLLECTION, raw("bad", size=3))
            await until(lambda: not informer.unreadable, within=30)
    assert len([line for line in logs if line["log_level"] == "error"]) == 1


@virtual
async def test_metrics_tell_whether_the_cache_follows():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    informer = informer_of(api)
    registry = informer._metrics.registry

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, {"informer": COLLECTION})

    assert value("paddock_informer_synced") == 0
    async with running(informer.run()):
        await informer.synced.wait()
        assert value("paddock_informer_synced") == 1
        assert value("paddock_informer_objects") == 1
        assert value("paddock_informer_relists_total") == 1
        await asyncio.sleep(30)
        assert value("paddock_informer_last_event_age_seconds") == pytest.approx(30, abs=0.1)
        await asyncio.sleep(31)
        assert value("paddock_informer_last_event_age_seconds") == pytest.approx(1, abs=0.1), "a bookmark counts"


@virtual
async def test_a_watch_that_never_says_anything_is_not_believed_for_ever():
    """A server restored from a backup accepts a version from its lost future, and is then silent."""
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    api.bookmark_every = 10_000
    informer = informer_of(api)
    async with running(informer.run()):
        await informer.synced.wait()
        api.version = 50
        api.history.clear()
        api.remove(COLLECTION, "a", "ns")
        api.put(COLLECTION, raw("b"))
        await asyncio.sleep(100)
        assert names(informer) == ["a"]
        await until(lambda: names(informer) == ["b"], within=650)
    assert api.count("list") == 2
