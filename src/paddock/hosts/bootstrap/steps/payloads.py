"""Programs that belong on every host of the fleet: fetched or uploaded, proven by checksum, kept running, found healthy.

Each payload is a step of its own. What an earlier configuration installed and this one does not name is removed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.hosts.bootstrap.launchd import job_plist
from paddock.hosts.bootstrap.plan import FleetConfig, LaunchdJob, Payload, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell, encoded

__all__ = ["InstalledPayload", "RetiredPayloads", "restart_job"]

_HEALTH_SECONDS = 30


@dataclass(frozen=True, slots=True)
class InstalledPayload:
    """One payload, installed and, where it has a job, running what was installed."""

    payload: Payload

    @property
    def name(self) -> str:
        return f"payload-{self.payload.name}"

    @property
    def timeout(self) -> float:
        return 900.0

    @property
    def live(self) -> bool:
        return self.payload.swap_under_vms

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:
        payload, job = self.payload, self.payload.job
        scripts = [
            script(name)
            for name in ("payload_state", "payload_install", "payload_health", "payload_prune", "launchd_job")
        ]
        how = "" if job is None else f"{job_plist(job, host, fleet)}{job.folder}"
        # Not the source: where the same bytes come from changes nothing on a host.
        return (*scripts, _record(payload), *self._form(), how, *payload.health_check)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:
        payload = self.payload
        record = encoded(_record(payload))
        state = await shell.run("payload_state", payload.name, record, payload.install_to)
        done = StepResult(notes=state.notes)
        if state.all("state") != ["current"]:
            done += await self._install(shell, record)
        if payload.job is not None:
            done += await _keep_running(shell, payload, payload.job, host, fleet, restart=False)
        if payload.health_check and (done.changes or payload.job is None):
            done += await shell.run("payload_health", str(_HEALTH_SECONDS), *payload.health_check)
        if payload.form == "tarball":
            # Not before the new version was seen to run: a run that dies above leaves the old one in place, and the next
            # run comes here again, because an install that is current is pruned, too.
            done += await shell.run("payload_prune", payload.install_to)
        return done

    async def _install(self, shell: StepShell, record: str) -> StepResult:
        payload = self.payload
        url = payload.source if payload.fetched_by_host else ""
        upload = None if url else await shell.payloads.open(payload)
        return await shell.run(
            "payload_install", payload.name, record, payload.install_to, *self._form(), url, upload=upload
        )

    def _form(self) -> tuple[str, ...]:
        payload = self.payload
        sign = "yes" if payload.sign_ad_hoc else "no"
        return (payload.sha256, payload.form, payload.command, payload.program, sign)


class RetiredPayloads:
    """Nothing runs that only an earlier configuration asked for, except what running virtual machines depend on."""

    name = "retired-payloads"
    timeout = 120.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("payloads_retired"), *self._kept(fleet))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        return await shell.run("payloads_retired", *self._kept(fleet))

    @staticmethod
    def _kept(fleet: FleetConfig) -> list[str]:
        return sorted(payload.name for payload in fleet.payloads)


async def restart_job(shell: StepShell, payload: Payload, host: PerHost, fleet: FleetConfig) -> StepResult:
    """Start the payload's job anew and see that it stays up. Virtual machines are not touched."""
    if payload.job is None:
        return StepResult(notes=(f"{payload.name} has no job",))
    return await _keep_running(shell, payload, payload.job, host, fleet, restart=True)


async def _keep_running(
    shell: StepShell, payload: Payload, job: LaunchdJob, host: PerHost, fleet: FleetConfig, *, restart: bool
) -> StepResult:
    identity = "" if host.kubeconfig is None else hashlib.sha256(host.kubeconfig.reveal().encode()).hexdigest()[:16]
    assign = f"program={payload.sha256} kubeconfig={identity if payload.agent else ''}"
    user = host.username if job.run_as == "login" else "root"
    plist = encoded(job_plist(job, host, fleet))
    again = "yes" if restart else "no"
    return await shell.run("launchd_job", job.label, plist, assign, again, job.log, user, job.folder)


def _record(payload: Payload) -> str:
    """What is written on the host once the payload is there; also how it is found when it must go again."""
    lines = [f"sha256 {payload.sha256}", f"install-to {payload.install_to}"]
    if payload.command:
        lines.append(f"command {payload.command}")
    if payload.job is not None:
        lines.append(f"job {payload.job.label}")
    if not payload.swap_under_vms:
        lines.append("needed-by-vms yes")
    return "\n".join(lines)
