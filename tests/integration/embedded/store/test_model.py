"""Random histories, played to the model and to the durable store at once: they must never differ."""

import asyncio
import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.store import Key, Record, StoreError, StorePage
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

_schemas = itertools.count()

keys = st.builds(
    Key, st.sampled_from(["pods", "nodes"]), st.sampled_from(["", "a", "a-b"]), st.sampled_from(["x", "x-y", "z"])
)
revisions = st.integers(-1, 40)
writes = st.one_of(
    st.tuples(st.just("create"), keys, st.integers(0, 9)),
    st.tuples(st.just("update"), keys, st.integers(0, 9)),
    st.tuples(st.just("delete"), keys),
)
Answer = Record | StorePage | type[Exception]


class BothStores(RuleBasedStateMachine):
    dsn: str

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.schema = f"model_{next(_schemas)}"
        self.model = MemoryStore(history_limit=12)
        self.durable = self.runner.run(self._open())

    async def _open(self) -> PostgresStore:
        return await PostgresStore.open(
            self.dsn, clock=SystemClock(), rng=random.Random(5), schema=self.schema, history_limit=12
        )

    @rule(group=st.lists(st.tuples(writes, st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=6))
    def write_together(self, group: list[tuple[tuple[Any, ...], int]]) -> None:
        """Writes that share a batch must end as if each had been alone, in turn."""
        self.runner.run(self._write(group))

    async def _write(self, group: list[tuple[tuple[Any, ...], int]]) -> None:
        expected: list[Answer] = []
        calls = []
        for (verb, key, *rest), error in group:
            current = await self.model.get(key)
            arguments: list[Any] = [{"metadata": {"labels": {"n": str(n)}}, "n": n} for n in rest]
            if verb != "create":
                arguments.append((current.revision if current else 0) + error)
            calls.append(getattr(self.durable, verb)(key, *arguments))
            expected.append(await _answer(getattr(self.model, verb)(key, *arguments)))
        assert await asyncio.gather(*map(_answer, calls)) == expected

    @rule(
        resource=st.sampled_from(["pods", "nodes", "none"]),
        namespace=st.sampled_from([None, "", "a", "a-b"]),
        limit=st.integers(0, 4),
        after=st.sampled_from([None, ("", "x"), ("a", "x"), ("a", "zz"), ("b", "")]),
        revision=st.one_of(st.none(), revisions),
    )
    def list_alike(self, resource: str, revision: int | None, **options: Any) -> None:
        answers = [
            self.runner.run(_answer(store.list(resource, revision=revision, **options)))
            for store in (self.model, self.durable)
        ]
        assert answers[0] == answers[1]

    @rule(resource=st.sampled_from(["pods", "nodes"]), namespace=st.sampled_from([None, "a"]), after=revisions)
    def replay_alike(self, resource: str, namespace: str | None, after: int) -> None:
        async def replay(store: MemoryStore | PostgresStore) -> object:
            try:
                async with store.watch(resource, namespace, after=after) as watch:
                    changes = []
                    while watch.revision < store.revision:
                        changes.append(await anext(aiter(watch)))
                    return changes
            except StoreError as error:
                return type(error)

        assert self.runner.run(replay(self.model)) == self.runner.run(replay(self.durable))

    @rule(revision=revisions)
    def compact_alike(self, revision: int) -> None:
        answers = [self.runner.run(_answer(store.compact(revision))) for store in (self.model, self.durable)]
        assert answers[0] == answers[1]

    @precondition(lambda self: self.durable.revision > 0)
    @rule()
    def reopen(self) -> None:
        """A restart forgets history and nothing else."""
        self.runner.run(self.durable.close())
        self.durable = self.runner.run(self._open())
        self.runner.run(self.model.compact(self.model.revision))

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "durable"):
            return
        assert self.durable.revision == self.model.revision
        assert set(self.durable._state.records()) == set(self.model._state.records())

    def teardown(self) -> None:
        if hasattr(self, "durable"):
            self.runner.run(self.durable.close())
            self.runner.close()


async def _answer(call: Any) -> Answer:
    try:
        return await call
    except StoreError as error:
        return type(error)


@pytest.mark.slow
def test_the_durable_store_never_differs_from_the_model(server: EmbeddedPostgres) -> None:
    class Machine(BothStores):
        dsn = server.dsn

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
