"""ServiceAccounts of runner Pods that are gone: a token's name without its owner.

A Pod's ServiceAccount has the Pod's name and is made before it. So accounts are listed first and Pods afterwards, young
accounts are left alone, and the Pod is asked for by name once more before its account goes: an account that is deleted under
a living Pod takes its token away, and with it the job.
"""

from dataclasses import replace
from typing import Final

from paddock.base.clock import Clock
from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.kube.reader import FreshReader
from paddock.runners.api import POOL_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, implausible
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.worker import Healed, Report

__all__ = ["OrphanServiceAccounts"]

KIND: Final = "orphan_service_account"


class OrphanServiceAccounts:
    """Kind `orphan_service_account`."""

    name = "service_accounts"

    def __init__(
        self,
        client: Client,
        settings: HealingSettings,
        clock: Clock,
        *,
        namespace: str,
        metrics: HealingMetrics | None = None,
    ) -> None:
        self._client = client
        self._reader = FreshReader(client)
        self._settings = settings
        self._clock = clock
        self._namespace = namespace
        self._metrics = metrics or HealingMetrics()
        self._attempts = Attempts()
        self.every = settings.every

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        accounts = (await self._reader.list(ServiceAccount, self._namespace, label_selector=POOL_LABEL)).items
        pass_report.looked = len(accounts)
        if not accounts:
            return pass_report.report()
        # Every Pod of the namespace, whatever its labels: one that lost them still uses its account.
        pods = (await self._reader.list(Pod, self._namespace)).items
        used = {pod.metadata.name for pod in pods} | {pod.spec.service_account_name for pod in pods}
        before = self._clock.now() - self._settings.assignment_grace
        orphans = [
            account
            for account in accounts
            if account.metadata.name not in used
            and account.metadata.deletion_timestamp is None
            and account.metadata.creation_timestamp is not None
            and account.metadata.creation_timestamp < before
        ]
        self._metrics.suspects.labels(KIND).set(len(orphans))
        if implausible(len(accounts), len(orphans), self._settings):
            self._metrics.refused.labels("breaker").inc()
            pass_report.refuse(
                f"{len(orphans)} of {len(accounts)} ServiceAccounts have no Pod: taken for a wrong read, nothing was done;"
                f" delete them by hand if their Pods are really gone (label {POOL_LABEL})"
            )
            return pass_report.report()
        if pass_report.only_reports(KIND):
            there = [account for account in orphans if await self._is_there(account)]
            return replace(pass_report.report(), reported=tuple(self._heal(account) for account in there))
        orphans = self._attempts.in_order(orphans, lambda account: account.metadata.uid)
        for account in orphans[: self._settings.cap]:
            self._attempts.tried(account.metadata.uid)
            with pass_report.item(f"ServiceAccount {account.metadata.name}"):
                await self._delete(account, pass_report)
        return replace(pass_report.report(), deferred=max(0, len(orphans) - self._settings.cap))

    async def _is_there(self, account: ServiceAccount) -> bool:
        """Most accounts without a Pod are on their way out with it: they were listed a moment before they went."""
        found = await self._reader.get(ServiceAccount, account.metadata.name, self._namespace)
        return found is not None and found.metadata.uid == account.metadata.uid

    async def _delete(self, account: ServiceAccount, pass_report: PassReport) -> None:
        meta = account.metadata
        if await self._reader.get(Pod, meta.name, self._namespace) is not None:
            self._metrics.refused.labels("there_after_all").inc()
            pass_report.refuse(f"ServiceAccount {meta.name} has a Pod after all")
            return
        try:
            await self._client.delete(
                ServiceAccount, meta.name, self._namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFoundError:
            return
        except ConflictError:
            pass_report.refuse(f"ServiceAccount {meta.name} changed in the last moment, and is looked at again")
            return
        pass_report.done(self._heal(account))

    def _heal(self, account: ServiceAccount) -> Healed:
        meta = account.metadata
        assert meta.creation_timestamp is not None, "accounts of unknown age are left alone"
        evidence = {"proof": [["kubernetes", "no Pod of that name, in a list and on asking"]], "uid": meta.uid}
        age = (self._clock.now() - meta.creation_timestamp).total_seconds()
        return Healed(KIND, meta.name, f"ServiceAccount {meta.name} has no Pod", evidence, max(0.0, age))
