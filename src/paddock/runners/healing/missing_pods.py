"""Claims and sessions whose Pod is gone: the ledger's side of a Pod that ended without a report.

`on_pod_gone` heals at once what a watch saw end. The sweep is the backstop: it needs a Pod to be missing from complete lists
for five minutes, and then asks for that very Pod once more. Releasing a claim too early takes an account over its limit and
puts a job back that may be running; so a list that fails, is empty, or lacks most of what it should hold changes nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.clients.github import GitHub
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.reader import FreshReader
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, Streaks, implausible
from paddock.runners.healing.dismissal import Dismissed, dismiss_claim
from paddock.runners.healing.inquiry import Inquiry, Questions
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.observations import list_runner_pods
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.reaping import AskAboutJobs
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import HeldPod, Ledger, Session

__all__ = ["MissingPods"]

BY: Final = "healing"
CLAIM, SESSION = "pod_missing_claim", "orphaned_runner_session"
_SESSIONS_AT_ONCE: Final = 100
_LONGEST_SESSION: Final = timedelta(hours=6)
"""GitHub ends a job after six hours: where no ledger knows when a Pod ended, it was no later than that."""
_LOG = get_logger("healing")


class MissingPods:
    """Kinds `pod_missing_claim` and `orphaned_runner_session`. Never touches a Pod."""

    name = "presence"

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        github: GitHub,
        settings: HealingSettings,
        clock: Clock,
        *,
        namespace: str,
        metrics: HealingMetrics | None = None,
        ask: AskAboutJobs | None = None,
    ) -> None:
        self._ledger = ledger
        self._reader = FreshReader(client)
        self._github = github
        self._inquiry = Inquiry(github, ledger, clock)
        self._settings = settings
        self._clock = clock
        self._namespace = namespace
        self._metrics = metrics or HealingMetrics()
        self._ask = ask
        self._attempts = Attempts()
        self._absent = Streaks(timedelta(seconds=3 * settings.every))
        self.every = settings.every

    async def on_pod_gone(self, pod_uid: str, *, name: str = "", ended_at: datetime | None = None) -> Report:
        """A watch saw this Pod go: its session and claim end now, its fence is lifted, its jobs are asked about.

        Nothing happens if the Pod is there after all, or if the ledger does not know it. Repeatable.
        """
        pass_report = PassReport(self._settings)
        claim = await self._ledger.claims.of_pod(pod_uid)
        session = await self._ledger.sessions.of_pod(pod_uid)
        fence = await self._ledger.fences.of_pod(pod_uid)
        held = claim or session or fence
        if held is None:
            return pass_report.report()
        pass_report.looked = 1
        if await self._is_there(name or held.pod_name, pod_uid):
            self._refuse("there_after_all", f"Pod {held.pod_name} was seen to go, and is there", pass_report)
            return pass_report.report()
        heals = self._heals(claim, session, "a watch saw it go")
        if any(pass_report.only_reports(heal.kind) for heal in heals):
            return replace(pass_report.report(), reported=tuple(heals))
        now = self._clock.now()
        why = f"Pod {held.pod_name} is gone"
        minted = claim is not None and claim.state == "running"
        free = not minted or await self._runner_gone(claim, self._inquiry.aside(pass_report), pass_report)
        # It is gone, so that it ended no later than now: the moment in a deleted Pod has the grace in it that it was given.
        at = min(ended_at or now, now)
        stopped = await self._ledger.recovery.pod_stopped(pod_uid, at, by=BY, why=why, minted=free)
        if fence is not None:
            await self._ledger.fences.lift(fence, by=BY, why=why)
        for heal in heals:
            if (heal.kind == SESSION and stopped.session_ended) or (heal.kind == CLAIM and stopped.released):
                pass_report.done(heal)
        if stopped.unsettled and self._ask is not None:
            with pass_report.item(f"jobs of Pod {held.pod_name}"):
                await self._ask([job.job_id for job in stopped.unsettled], pod_uid)
        return pass_report.report()

    async def heal(self) -> Report:
        return await self._pass(dry=False)

    async def plan(self) -> Report:
        """What a pass would do now, without doing it."""
        return await self._pass(dry=True)

    async def _pass(self, *, dry: bool) -> Report:
        pass_report = PassReport(self._settings)
        settings, now = self._settings, self._clock.now()
        old_claims = [
            claim for claim in await self._ledger.claims.all() if claim.claimed_at < now - settings.missing_grace
        ]
        old_sessions = await self._ledger.sessions.open(started_before=now - settings.session_absence)
        concerned = {row.pod_uid for row in (*old_claims, *old_sessions)}
        pass_report.looked = len(concerned)
        if not concerned:
            return pass_report.report()
        present = frozenset(pod.metadata.uid for pod in await list_runner_pods(self._reader, self._namespace))
        missing = concerned - present
        self._metrics.suspects.labels("missing_pod").set(len(missing))
        if not present or implausible(len(concerned), len(missing), settings):
            what = "no Pod at all" if not present else f"{len(missing)} of {len(concerned)} Pods missing"
            self._refuse(
                "breaker", f"the list of Pods shows {what}: taken for a wrong read, nothing was done", pass_report
            )
            return pass_report.report()
        if not dry:
            # Only now: the first absence is remembered, and a reappearance forgets it.
            await self._ledger.recovery.note_pods(present, claimed_before=now - settings.missing_grace)
        reported, put_off = await self._claims(present, pass_report, dry=dry)
        more_reported, more_put_off = await self._sessions(old_sessions, present, pass_report, dry=dry)
        return replace(pass_report.report(), reported=(*reported, *more_reported), deferred=put_off + more_put_off)

    async def _claims(self, present: frozenset[str], pass_report: PassReport, *, dry: bool) -> tuple[list[Healed], int]:
        """Release claims that are proven; gives what was only reported, and how many were put off."""
        now = self._clock.now()
        missing = [
            claim
            for claim in await self._ledger.recovery.missing(since_before=now - self._settings.missing_confirm)
            if claim.pod_uid not in present
        ]
        if dry or pass_report.only_reports(CLAIM):
            return [self._claim_heal(claim, "missing from complete lists") for claim in missing], 0
        questions = self._inquiry.begin(pass_report, ())
        chosen = self._attempts.in_order(missing, lambda claim: claim.pod_uid)[: self._settings.cap]
        put_off = len(missing) - len(chosen)
        if put_off:
            self._metrics.refused.labels("cap").inc(put_off)
            _LOG.warning("more claims without Pods than one pass may release", put_off=put_off)
        for claim in chosen:
            if pass_report.stopped:
                break
            self._attempts.tried(claim.pod_uid)
            with pass_report.item(f"claim of Pod {claim.pod_name}"):
                if await self._is_there(claim.pod_name, claim.pod_uid):
                    self._refuse(
                        "there_after_all", f"Pod {claim.pod_name} was missing from lists, and is there", pass_report
                    )
                    continue
                if claim.state == "running" and not await self._runner_gone(claim, questions, pass_report):
                    continue
                why = f"Pod {claim.pod_name} has been missing since {_at(claim.missing_since)}"
                ended = await self._ledger.recovery.release_missing([claim], by=BY, why=why)
                if ended:
                    pass_report.done(self._claim_heal(claim, "missing from complete lists"))
                    handed = [one.job_id for one in ended if one.state == "running" and one.job_id is not None]
                    if handed and self._ask is not None:
                        await self._ask(handed, claim.pod_uid)
                else:
                    self._refuse("moved_on", f"the claim of Pod {claim.pod_name} moved on", pass_report)
        return [], put_off

    async def _sessions(
        self, sessions: list[Session], present: frozenset[str], pass_report: PassReport, *, dry: bool
    ) -> tuple[list[Healed], int]:
        now = self._clock.now()
        absent: list[tuple[Session, datetime]] = []
        for session in sessions:
            if session.pod_uid in present:
                self._absent.broken(session.pod_uid)
            elif (since := self._absent.seen(session.pod_uid, now)) <= now - self._settings.missing_confirm:
                absent.append((session, since))
        self._absent.keep_only(frozenset(session.pod_uid for session in sessions))
        if dry or pass_report.only_reports(SESSION):
            return [self._session_heal(session, "missing from complete lists") for session, _ in absent], 0
        for session, since in absent[:_SESSIONS_AT_ONCE]:
            if pass_report.stopped:
                break
            with pass_report.item(f"session of Pod {session.pod_name}"):
                if await self._is_there(session.pod_name, session.pod_uid):
                    self._absent.broken(session.pod_uid)
                    self._refuse(
                        "there_after_all", f"Pod {session.pod_name} was missing from lists, and is there", pass_report
                    )
                    continue
                ended_at = await self._ended_at(session, since)
                why = f"Pod {session.pod_name} has been missing since {_at(since)}"
                # Only an open session: a report that came meanwhile knows better when it ended.
                if await self._ledger.sessions.end_absent({session.pod_uid: ended_at}, by=BY, why=why):
                    pass_report.done(self._session_heal(session, "missing from complete lists"))
        return [], max(0, len(absent) - _SESSIONS_AT_ONCE)

    async def _runner_gone(self, claim: HeldPod | None, questions: Questions, pass_report: PassReport) -> bool:
        """Whether no runner of this claim can come online any more: the VM of a Pod that was deleted by force may live on.

        An account without an installation is handed no job, so that its slots hold nobody up: there the Pod's word counts.
        """
        if claim is None or claim.runner_name is None:
            return True
        dismissed = await dismiss_claim(claim, self._github, questions, pass_report)
        return dismissed in (Dismissed.GONE, Dismissed.NOBODY)

    async def _ended_at(self, session: Session, absent_since: datetime) -> datetime:
        """The best guess: when its job ended, else when the Pod was first missed; never after now or six hours."""
        guess = session.job_ended_at
        job_id = session.executed_job_id or session.job_id
        if guess is None and job_id is not None and (over := await self._ledger.jobs.completion(job_id)) is not None:
            guess = over.completed_at
        latest = min(self._clock.now(), session.started_at + _LONGEST_SESSION)
        return max(session.started_at, min(guess or absent_since, latest))

    async def _is_there(self, name: str, uid: str) -> bool:
        found = await self._reader.get(Pod, name, self._namespace)
        return found is not None and found.metadata.uid == uid

    def _refuse(self, reason: str, sentence: str, pass_report: PassReport) -> None:
        self._metrics.refused.labels(reason).inc()
        pass_report.refuse(sentence)

    def _heals(self, claim: HeldPod | None, session: Session | None, how: str) -> list[Healed]:
        heals = [] if claim is None else [self._claim_heal(claim, how)]
        if session is not None and session.ended_at is None:
            heals.append(self._session_heal(session, how))
        return heals

    def _claim_heal(self, claim: HeldPod, how: str) -> Healed:
        since = claim.missing_since or self._clock.now()
        evidence = {
            "proof": [
                ["kubernetes", f"Pod {claim.pod_name} is gone ({how})"],
                ["postgres", f"{claim.state} for job {claim.job_id}"],
            ],
            "pod_uid": claim.pod_uid,
            "job_id": claim.job_id,
            "generation": claim.generation,
        }
        sentence = f"the claim of Pod {claim.pod_name} ends, because the Pod is gone: {how}"
        return Healed(CLAIM, claim.pod_name, sentence, evidence, (self._clock.now() - since).total_seconds())

    def _session_heal(self, session: Session, how: str) -> Healed:
        evidence = {
            "proof": [
                ["kubernetes", f"Pod {session.pod_name} is gone ({how})"],
                ["postgres", f"session open since {_at(session.started_at)}"],
            ],
            "pod_uid": session.pod_uid,
            "job_id": session.executed_job_id or session.job_id,
        }
        sentence = f"the session of Pod {session.pod_name} ends, because the Pod is gone: {how}"
        return Healed(SESSION, session.pod_name, sentence, evidence)


def _at(moment: datetime | None) -> str:
    return "an unknown moment" if moment is None else rfc3339(moment)
