"""The simulated agents for runner Pods: Pods that are bound to a simulated Node boot, wait for a job, run it, and end.

It is the kubelet (status, exit codes, deletion) and the VM behind it. Inside a Pod runs the real poll client against the
real dispatch service, and then a runner that is connected to the simulated GitHub.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import httpx2
import msgspec

from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.dispatch.hold_time import HoldTime
from paddock.clients.dispatch.poll_client import Drained, PollClient, Refused, Served
from paddock.kube.builtin import Pod, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError, TransportError, UnavailableError
from paddock.node.guest import RUNNER_TOO_OLD
from paddock.runners.api import AUDIENCE, POLLER, RUNNER, RUNNER_LABEL
from paddock.simulator.github.sessions import RunnerGoneError, RunnerRefusedError, RunnerSession

__all__ = ["Hang", "RunnerFaults", "RunnerPace", "SimulatedPods"]

log = get_logger("simulated pods")
_LOOK_EVERY = 0.5
_TOKEN_SECONDS = 600
_TOKEN_RENEW = (0.7, 0.8)
"""After which part of its time a token is renewed; the kubelet does it when four fifths are over."""
_PARTS = 8
_TELL_AGAIN = 1.0


class Hang(StrEnum):
    """How a runner can go wrong, each as a runner in the field did."""

    NEVER_REGISTERS = "never registers"
    LOSES_ANSWER = "loses the answer"
    HANGS_AFTER_JOB = "hangs after its job"
    DIES_IN_JOB = "dies in its job"
    STANDS_STILL = "stands still in its job"
    RETRIES_NOISILY = "retries noisily"
    TOO_OLD = "is too old"


@dataclass(frozen=True, slots=True)
class RunnerPace:
    """How long things take inside, in seconds before `speed`."""

    boot: float = 25.0
    register: float = 3.0
    idle: float = 300.0
    teardown: float = 5.0
    speed: float = 1.0

    def scaled(self, seconds: float) -> float:
        return seconds / self.speed


@dataclass(slots=True)
class RunnerFaults:
    """What the next runners will do wrong; each entry is used once."""

    next: list[Hang] = field(default_factory=list)

    def take(self, *kinds: Hang) -> Hang | None:
        for kind in self.next:
            if kind in kinds:
                self.next.remove(kind)
                return kind
        return None


class SimulatedPods:
    """Runs every runner Pod that is bound to a Node of the simulated world."""

    def __init__(
        self,
        client: Client,
        dispatch: Callable[[], httpx2.AsyncClient],
        url: str,
        connect: Callable[[str], RunnerSession],
        *,
        clock: Clock,
        rng: random.Random,
        pace: RunnerPace | None = None,
        macos: bool = True,
    ) -> None:
        """Without `macos`, Pods for Macs are left to the agents that run there."""
        self._client = client
        self._dispatch = dispatch
        self._url = url
        self._connect = connect
        self._clock = clock
        self._rng = rng
        self._pace = pace or RunnerPace()
        self._macos = macos
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._holds: dict[str, HoldTime] = {}
        """By Node: what one Pod of it learns of the way to dispatch, all of them know, as with the agent of a Mac."""
        self.runner_faults = RunnerFaults()

    def reach(self, client: Client, url: str) -> None:
        """The cluster and dispatch are there from now on; what runs inside the Pods goes on."""
        self._client, self._url = client, url

    async def run(self) -> None:
        """Work until cancelled; then every Pod's process ends with us, as on a power cut."""
        try:
            while True:
                try:
                    await self._look()
                except KubeError as error:
                    log.warning("simulated Pods could not be looked at", why=str(error))
                await self._clock.sleep(_LOOK_EVERY)
        finally:
            for task in self._lives.values():
                task.cancel()
            await asyncio.gather(*self._lives.values(), return_exceptions=True)

    async def _look(self) -> None:
        pods = (await self._client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items
        there = {pod.metadata.uid for pod in pods}
        for uid in [uid for uid in self._lives if uid not in there]:
            await self._end(uid)
        for pod in pods:
            if not pod.spec.node_name or not self._ours(pod):
                continue
            if pod.metadata.deletion_timestamp is not None:
                await self._end(pod.metadata.uid)
                with suppress(NotFoundError):
                    await self._client.delete(
                        Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period=0
                    )
            elif pod.metadata.uid not in self._lives and pod.status.phase in ("", "Pending", "Running"):
                self._lives[pod.metadata.uid] = asyncio.create_task(self._life(pod), name=f"pod {pod.metadata.name}")

    def _ours(self, pod: Pod) -> bool:
        return self._macos or pod.spec.node_selector.get("kubernetes.io/os") != "darwin"

    async def _end(self, uid: str) -> None:
        task = self._lives.pop(uid, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _life(self, pod: Pod) -> None:
        try:
            if pod.status.phase == "Running":
                # We were away, and with us whatever ran inside.
                await self._tell(pod, "Failed", code=137, reason="Error", message="the VM was gone after a restart")
                return
            await self._clock.sleep(self._pace.scaled(self._pace.boot * self._rng.uniform(0.7, 1.3)))
            await self._waiting(pod)
            code, message = await self._inside(pod)
            await self._clock.sleep(self._pace.scaled(self._pace.teardown))
            await self._tell(pod, "Succeeded" if code == 0 else "Failed", code=code, message=message)
        except KubeError as error:
            log.warning("a simulated Pod could not tell how it is", pod=pod.metadata.name, why=str(error))

    async def _inside(self, pod: Pod) -> tuple[int, str]:
        """The exit code of what runs inside, and its last words."""
        async with self._dispatch() as http:
            token = await _Token.made(self._client, pod, self._clock, self._rng)
            renewing = asyncio.create_task(token.keep_fresh())
            try:
                hold = self._holds.setdefault(pod.spec.node_name, HoldTime(self._clock))
                client = PollClient(http, self._url, token.current, clock=self._clock, rng=self._rng, hold=hold)
                match await client.next():
                    case Drained(reason=reason):
                        return 0, f"drained: {reason}"
                    case Refused(status=status, reason=reason):
                        return 1, f"refused ({status}): {reason}"
                    case Served() as served:
                        return await self._runner(pod, served, http, token)
            finally:
                renewing.cancel()

    async def _runner(self, pod: Pod, served: Served, http: httpx2.AsyncClient, token: "_Token") -> tuple[int, str]:
        mishap = self.runner_faults.take(*Hang)
        if mishap is Hang.LOSES_ANSWER:
            # The answer never arrives; the client asks again and is told to go.
            again = await PollClient(http, self._url, token.current, clock=self._clock, rng=self._rng).next()
            return (0, f"drained: {again.reason}") if isinstance(again, Drained) else (1, "was answered twice")
        if mishap is Hang.NEVER_REGISTERS:
            await self._clock.sleep(float("inf"))
        await self._running(pod)
        if mishap is Hang.TOO_OLD:
            return RUNNER_TOO_OLD, "Runner version is deprecated and cannot receive messages."
        while mishap is Hang.RETRIES_NOISILY:
            # It cannot connect, and each retry is a line in its log: the mark moves for ever, and no worker comes.
            await self._report(http, token, f"{int(self._clock.now().timestamp())} listening")
            await self._clock.sleep(max(1.0, self._pace.scaled(self._pace.register)))
        await self._clock.sleep(self._pace.scaled(self._pace.register * self._rng.uniform(0.7, 1.6)))
        session: RunnerSession | None = None
        try:
            session = self._connect(served.config.reveal())
            return await self._job(session, mishap, http, token)
        except (RunnerRefusedError, RunnerGoneError) as error:
            return 1, str(error)
        finally:
            if session is not None:
                session.disconnect()

    async def _job(
        self, session: RunnerSession, mishap: Hang | None, http: httpx2.AsyncClient, token: "_Token"
    ) -> tuple[int, str]:
        job = await session.next_job(self._pace.scaled(self._pace.idle))
        if job is None:
            return 0, "no job came"
        if mishap is Hang.DIES_IN_JOB:
            return 137, "the runner was killed"
        if mishap is Hang.STANDS_STILL:
            await self._clock.sleep(float("inf"))
        for part in range(1, _PARTS + 1):
            await self._clock.sleep(job.duration / _PARTS)
            session.progress()
            await self._report(http, token, part)
            if session.cancelled:
                break
        session.finish()
        if mishap is Hang.HANGS_AFTER_JOB:
            await self._clock.sleep(float("inf"))
        return 0, f"job {job.job_id} done"

    async def _report(self, http: httpx2.AsyncClient, token: "_Token", mark: int | str) -> None:
        url = f"{self._url.rstrip('/')}/api/internal/runners/pods/progress"
        headers = {"Authorization": f"Bearer {token.current().reveal()}"}
        with suppress(httpx2.HTTPError):  # a mark that is lost is made up for by the next
            await http.post(url, json={"mark": mark}, headers=headers, timeout=5.0)

    # What the kubelet tells the cluster.

    async def _waiting(self, pod: Pod) -> None:
        """Booted. On Linux the poller runs and the Pod is Pending; a Mac's VM is simply running."""
        state = {"running": {"startedAt": rfc3339(self._clock.now())}}
        if pod.spec.init_containers:
            inits = [
                {
                    "name": c.name,
                    "ready": False,
                    "started": True,
                    "restartCount": 0,
                    "image": c.image,
                    "imageID": "",
                    "state": state,
                }
                for c in pod.spec.init_containers
            ]
            mains = [self._container(pod, {"waiting": {"reason": "PodInitializing"}}, ready=False)]
            await self._patch(pod, {"phase": "Pending", "initContainerStatuses": inits, "containerStatuses": mains})
            return
        others = [msgspec.to_builtins(each) for each in pod.status.conditions if each.type != "Ready"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self._clock.now())}
        status = {"phase": "Running", "conditions": [*others, ready]}
        await self._patch(pod, status | {"containerStatuses": [self._container(pod, state, ready=True)]})

    async def _running(self, pod: Pod) -> None:
        """The runner starts: on Linux the poller has ended by now."""
        if not pod.spec.init_containers:
            return
        now = rfc3339(self._clock.now())
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now, "startedAt": now}}
        inits = [
            {
                "name": c.name,
                "ready": True,
                "restartCount": 0,
                "image": c.image,
                "imageID": "",
                "state": ended if c.name == POLLER else {"running": {"startedAt": now}},
            }
            for c in pod.spec.init_containers
        ]
        mains = [self._container(pod, {"running": {"startedAt": now}}, ready=True)]
        await self._patch(pod, {"phase": "Running", "initContainerStatuses": inits, "containerStatuses": mains})

    async def _tell(self, pod: Pod, phase: str, *, code: int, reason: str = "", message: str = "") -> None:
        now = rfc3339(self._clock.now())
        ended = {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Completed" if code == 0 else "Error"),
                "message": message,
                "startedAt": now,
                "finishedAt": now,
            }
        }
        await self._patch(pod, {"phase": phase, "containerStatuses": [self._container(pod, ended, ready=False)]})

    def _container(self, pod: Pod, state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
        image = next((c.image for c in pod.spec.containers if c.name == RUNNER), "")
        return {
            "name": RUNNER,
            "image": image,
            "imageID": "",
            "ready": ready,
            "started": "running" in state,
            "restartCount": 0,
            "state": state,
        }

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> None:
        meta = pod.metadata
        change = {"metadata": {"uid": meta.uid}, "status": status}
        while True:
            try:
                await self._client.merge_patch(Pod, meta.name, change, namespace=meta.namespace, subresource="status")
            except NotFoundError:
                return
            except (TransportError, UnavailableError):
                await self._clock.sleep(_TELL_AGAIN)  # the API is away; what happened is told when it is back
            else:
                return


class _Token:
    """A Pod's projected token, renewed before it ends, as the kubelet does."""

    def __init__(self, client: Client, pod: Pod, clock: Clock, rng: random.Random, token: Secret) -> None:
        self._client = client
        self._pod = pod
        self._clock = clock
        self._rng = rng
        self._token = token

    @classmethod
    async def made(cls, client: Client, pod: Pod, clock: Clock, rng: random.Random) -> "_Token":
        while True:
            try:
                return cls(client, pod, clock, rng, await _issued(client, pod))
            except (TransportError, UnavailableError):
                await clock.sleep(_TELL_AGAIN)

    def current(self) -> Secret:
        return self._token

    async def keep_fresh(self) -> None:
        while True:
            await self._clock.sleep(_TOKEN_SECONDS * self._rng.uniform(*_TOKEN_RENEW))
            with suppress(KubeError):
                self._token = await _issued(self._client, self._pod)


async def _issued(client: Client, pod: Pod) -> Secret:
    account = pod.spec.service_account_name or "default"
    token, _ = await client.create_token(
        account,
        pod.metadata.namespace,
        audiences=(AUDIENCE,),
        expiration_seconds=_TOKEN_SECONDS,
        bound_to=reference_to(pod),
    )
    return token
