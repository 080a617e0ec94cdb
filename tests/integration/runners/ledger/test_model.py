"""Random histories, played to the plain-Python model and to the real ledger at once: they must never differ."""

import asyncio
import itertools
import random
from contextlib import AsyncExitStack, closing

import hypothesis.strategies as st
import pytest
from doubles.clocks import StandingClock
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from integration.kept_connections import KeptConnections
from integration.runners.ledger.model import VCPUS, Model
from integration.runners.ledger.rig import Bench, job, pod

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.ledger import (
    Claim,
    Fence,
    JobGoneError,
    Ledger,
    NewJob,
    Outcome,
    StaleClaimError,
)

_worlds = itertools.count(1)
ACCOUNTS = {0: 1, 1: 2, 2: 5}  # how many Macs each may hold
numbers = st.integers(0, 9)
pods = st.integers(0, 5)


class BothLedgers(RuleBasedStateMachine):
    """Every example has accounts, jobs, Pods and a pool of its own, in one schema that all of them share."""

    dsn: str
    runner: asyncio.Runner
    bench: Bench

    @initialize()
    def enter(self) -> None:
        self.world = next(_worlds)
        self.pool = f"pool-{self.world}"
        self.names = itertools.count()
        self.model = Model({self.account(n): macs for n, macs in ACCOUNTS.items()})
        self.minted: list[str] = ["nobodys-runner"]
        self.won: list[Claim] = []
        self.standing: dict[str, Fence] = {}
        self.run(self._enrol())

    async def _enrol(self) -> None:
        for account, macs in self.model.limits.items():
            await self.bench.accounts(account, vcpus=macs * VCPUS, memory_mb=macs * 14_336)

    def run(self, deed):  # a coroutine in, its result out
        return self.runner.run(deed)

    def account(self, number: int) -> int:
        return 10 * self.world + number % 3

    def job(self, number: int) -> NewJob:
        return job(100 * self.world + number, self.account(number), pool=self.pool)

    def pod(self, number: int):
        return pod(f"{self.world}-{number}")

    def _check(self, claim: Claim) -> None:
        verdict = self.model.verdict_on(claim.pod_uid)
        expected = self.model.next_job()
        if verdict is not None:
            # With nothing to hand out, or with something: a Pod that may not have it is told why.
            assert claim.outcome is verdict
        elif expected is None:
            assert claim.outcome is Outcome.EMPTY
        else:
            assert (claim.outcome, claim.job_id) == (Outcome.CLAIMED, expected)
            self.model.claim(claim.pod_uid, claim.job_id, claim.generation)
            self.won.append(claim)

    @rule(number=numbers)
    def enqueue(self, number: int) -> None:
        one = self.job(number)
        self.run(self.bench.ledger.jobs.enqueue(one))
        self._enqueued(one)

    @rule(many=st.lists(numbers, min_size=3, max_size=8))
    def enqueue_many(self, many: list[int]) -> None:
        for number in many:
            self.enqueue(number)

    @rule(number=pods)
    def claim(self, number: int) -> None:
        self._check(self.run(self.bench.ledger.claims.claim(self.pool, self.pod(number))))

    @rule(many=st.lists(pods, min_size=1, max_size=6, unique=True))
    def claim_together(self, many: list[int]) -> None:
        """A batch gives what one after the other would have got, except that a Pod which cannot have a job uses none up."""
        answers = self.run(self.bench.ledger.claims.claim_many(self.pool, [self.pod(n) for n in many]))
        blocked = [a for a in answers if self.model.verdict_on(a.pod_uid) is not None]
        for answer in blocked:
            assert answer.outcome is self.model.verdict_on(answer.pod_uid)
        free = [answer for answer in answers if answer not in blocked]
        granted = {answer.job_id: answer for answer in free if answer.won}
        for _ in free:
            expected = self.model.next_job()
            if expected is None:
                break
            assert expected in granted, (expected, sorted(granted))
            claim = granted.pop(expected)
            self.model.claim(claim.pod_uid, claim.job_id, claim.generation)
            self.won.append(claim)
        assert granted == {}
        assert {answer.outcome for answer in free if not answer.won} <= {Outcome.EMPTY}

    @rule(which=st.integers(0, 30), with_name=st.sampled_from(["new", "new", "old"]))
    def commit(self, which: int, with_name: str) -> None:
        if not self.won:
            return
        claim = self.won[which % len(self.won)]
        name = f"mint-{self.world}-{next(self.names)}" if with_name == "new" else self.minted[which % len(self.minted)]
        try:
            self.run(self.bench.ledger.claims.commit(claim, name))
            said = "running"
        except StaleClaimError:
            said = "stale"
        except JobGoneError:
            said = "gone"
        if said == "running" and name not in self.minted:
            self.minted.append(name)
        assert said == self.model.commit(claim.pod_uid, claim.generation, name)

    @rule(which=st.integers(0, 30), failed=st.booleans())
    def release(self, which: int, failed: bool) -> None:
        if not self.won:
            return
        claim = self.won[which % len(self.won)]
        current = self.model.claims.get(claim.pod_uid)
        expected = current is not None and current.generation == claim.generation
        claims = self.bench.ledger.claims
        try:
            if failed:
                self.run(claims.mint_failed(claim, by="model", why="random", retry_after=1e9))
            else:
                self.run(claims.release(claim, by="model", why="random"))
        except StaleClaimError:
            assert not expected
        else:
            assert expected
            self.model.end(claim.pod_uid, requeue=True, failed=failed)

    @rule(number=numbers, which=st.integers(0, 30))
    def started(self, number: int, which: int) -> None:
        one, name = self.job(number), self.minted[which % len(self.minted)]
        if not self._same_account(one, name):
            return
        self.run(self.bench.ledger.jobs.started(one, runner_name=name, started_at=self.bench.clock.now()))
        self.model.started(one.job_id, one.account_id, name)

    @rule(number=numbers, which=st.none() | st.integers(0, 30))
    def completed(self, number: int, which: int | None) -> None:
        one = self.job(number)
        name = None if which is None else self.minted[which % len(self.minted)]
        if name is not None and not self._same_account(one, name):
            return
        self.run(
            self.bench.ledger.jobs.completed(
                one.job_id,
                account_id=one.account_id,
                conclusion="success",
                completed_at=self.bench.clock.now(),
                runner_name=name,
                job=one,
            )
        )
        self.model.completed(one.job_id, one.account_id, name)

    def _same_account(self, one: NewJob, name: str) -> bool:
        """GitHub gives a job to runners of its own account only; names of other accounts mean other runners."""
        executor = self.model.runner_of(name)
        return executor is None or self.model.claims[executor].account == one.account_id

    @rule(number=numbers, held=st.booleans())
    def held_back(self, number: int, held: bool) -> None:
        """`waiting` and `queued`, in any order: an approval that is asked for, given, or announced late."""
        one = self.job(number)
        self.run(self.bench.ledger.jobs.enqueue(one, status="waiting" if held else "queued"))
        self._enqueued(one, held=held)

    def _enqueued(self, one: NewJob, *, held: bool = False) -> None:
        self.model.enqueue(one.job_id, one.account_id, now=self.bench.clock.now(), held=held)

    @rule(number=pods)
    def vanished(self, number: int) -> None:
        """The Pod is gone and its runner may live on: what was minted keeps its slot."""
        uid = self.pod(number).uid
        recovery = self.bench.ledger.recovery
        self.run(recovery.pod_stopped(uid, self.bench.clock.now(), by="model", why="random", minted=False))
        self.model.stopped(uid, minted=False)

    @rule()
    def displaced_are_given_up(self) -> None:
        """As healing does once GitHub has their runners no more."""
        self.bench.clock.advance(1)
        unconfirmed = self.bench.ledger.unconfirmed
        found = self.run(unconfirmed.displaced(since_before=self.bench.clock.now()))
        mine = [claim for claim in found if claim.pool == self.pool]
        assert {claim.pod_uid for claim in mine} == set(self.model.displaced())
        for claim in mine:
            assert self.run(unconfirmed.release_displaced(claim, by="model", why="random")) is not None
            self.model.end(claim.pod_uid, requeue=False)

    @rule(number=numbers, held=st.booleans())
    def put_back(self, number: int, held: bool) -> None:
        """As healing does once the job's runner is gone from GitHub."""
        one = self.run(self.bench.ledger.jobs.get(self.job(number).job_id))
        if one is None or one.status != "running":
            return
        pod = next((uid for uid, claim in self.model.claims.items() if claim.job == one.job_id), None)
        claim = None if pod is None else self.run(self.bench.ledger.claims.of_pod(pod))
        heard = None if claim is None else claim.executing_since
        unconfirmed = self.bench.ledger.unconfirmed
        done = self.run(unconfirmed.put_back(one, heard=heard, by="model", why="random", held=held))
        assert done
        known = self.model.jobs[one.job_id]
        if pod is not None:
            del self.model.claims[pod]
        known.status, known.pod, known.generation, known.runner = ("waiting" if held else "queued"), None, None, None
        known.resting = False
        known.was_held = known.was_held or held

    @rule(number=pods)
    def stopped(self, number: int) -> None:
        uid = self.pod(number).uid
        self.run(self.bench.ledger.recovery.pod_stopped(uid, self.bench.clock.now(), by="model", why="random"))
        self.model.stopped(uid)

    @rule(number=pods)
    def fence(self, number: int) -> None:
        one = self.pod(number)
        answer = self.run(self.bench.ledger.fences.raise_fence(one, by="model", why="random"))
        assert isinstance(answer, Fence) == (one.uid not in self.model.claims)
        if isinstance(answer, Fence):
            self.model.fences.add(one.uid)
            self.standing[one.uid] = answer

    @rule(number=pods)
    def lift(self, number: int) -> None:
        uid = self.pod(number).uid
        if uid in self.standing:
            lifted = self.run(self.bench.ledger.fences.lift(self.standing[uid], by="model", why="random"))
            assert lifted == (uid in self.model.fences)
            self.model.fences.discard(uid)

    @invariant()
    def they_agree(self) -> None:
        if hasattr(self, "world"):
            self.run(self._agree())

    async def _agree(self) -> None:
        assert await self.bench.problems() == []
        jobs = await self.bench.ask(
            "SELECT job_id, status, generation, runner_name, mint_failures FROM jobs WHERE pool = %s", [self.pool]
        )
        expected = {
            (number, one.status, one.generation, one.runner, one.failures) for number, one in self.model.jobs.items()
        }
        assert set(jobs) == expected
        like = f"uid-{self.world}-%"
        claims = await self.bench.ask(
            "SELECT pod_uid, generation, job_id, state, runner_name FROM claims"
            " WHERE pod_uid LIKE %s AND state <> 'fenced'",
            [like],
        )
        assert set(claims) == {
            (uid, one.generation, one.job, one.state, one.runner) for uid, one in self.model.claims.items()
        }
        sessions = await self.bench.ask("SELECT pod_uid, ended_at IS NULL FROM sessions WHERE pod_uid LIKE %s", [like])
        assert dict(sessions) == self.model.sessions


@pytest.mark.parametrize("histories", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_random_histories_agree_with_the_model(server: EmbeddedPostgres, histories: int):
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        clock, schema = StandingClock(), f"ledger_model_{histories}"

        async def enter() -> Bench:
            ledger = await stack.enter_async_context(
                Ledger.open(server.dsn, clock=clock, rng=random.Random(3), schema=schema, size=2)
            )
            kept = stack.enter_context(closing(KeptConnections(server.dsn)))
            bench = Bench(ledger, clock, kept, schema)
            stack.push_async_callback(bench.aclose)
            return bench

        BothLedgers.runner = runner
        BothLedgers.bench = runner.run(enter())
        try:
            run_state_machine_as_test(
                BothLedgers,
                settings=settings(
                    max_examples=histories,
                    stateful_step_count=30,
                    deadline=None,
                    # A history is short enough to read as it is, and shrinking it would take minutes of database time.
                    phases=[Phase.explicit, Phase.reuse, Phase.generate],
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                ),
            )
        finally:
            runner.run(stack.aclose())
