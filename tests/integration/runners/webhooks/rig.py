"""Deliveries as GitHub sends them, pools as people write them, and the worker over a real ledger."""

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from integration.runners.ledger.rig import Bench
from prometheus_client import CollectorRegistry

from paddock.base.clock import rfc3339
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.webhooks import WebhookWorker

MAC = RunnerPool(
    metadata=ObjectMeta(name="mac-m4"),
    spec=RunnerPoolSpec(
        image="ghcr.io/acme/macos:15",
        fleet_selector="m4",
        dispatch_label="paddock-macos",
        job_source="Webhook",
        runner_labels=("self-hosted", "macOS"),
    ),
)
LINUX = RunnerPool(
    metadata=ObjectMeta(name="linux-x64"),
    spec=RunnerPoolSpec(
        image="ghcr.io/acme/linux:24",
        fleet_selector="x64",
        dispatch_label="paddock-linux",
        job_source="Webhook",
        runner_labels=("self-hosted", "Linux"),
        os="linux",
        pod_cpu_milli=3500,
        pod_memory_mb=8192,
    ),
)


class Dispatcher:
    """The worker, its ledger and a pen to write deliveries with."""

    def __init__(self, bench: Bench, *, enrol: bool = True) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.pools: Sequence[RunnerPool] | None = [MAC, LINUX]
        self.registry = CollectorRegistry()
        self.worker = WebhookWorker(
            bench.ledger, lambda: self.pools, bench.clock, random.Random(3), self.registry, enrol=enrol
        )
        self._written = 0

    def job(
        self,
        job_id: int,
        action: str = "queued",
        *,
        account: int = 1,
        login: str = "",
        installation: int | None = 0,
        labels: Sequence[str] = ("self-hosted", "paddock-macos"),
        created: datetime | None = None,
        **more: Any,
    ) -> bytes:
        """A `workflow_job` delivery; the account's installation is 1000 + its number unless said otherwise."""
        now = self.bench.clock.now()
        job = {
            "id": job_id,
            "run_id": 9000 + job_id,
            "run_attempt": 1,
            "name": "test",
            "workflow_name": "CI",
            "head_branch": "main",
            "head_sha": "abc",
            "labels": list(labels),
            "created_at": rfc3339(created or now - timedelta(seconds=5)),
            "started_at": rfc3339(now),
            "completed_at": rfc3339(now) if action == "completed" else None,
            "conclusion": "success" if action == "completed" else None,
            "runner_name": None,
        }
        owner = login or f"org{account}"
        payload: dict[str, Any] = {
            "action": action,
            "workflow_job": job | more,
            "repository": {"full_name": f"{owner}/app", "owner": {"id": account, "login": owner}},
        }
        if installation is not None:
            payload["installation"] = {"id": installation or 1000 + account}
        return json.dumps(payload).encode()

    def installation(self, action: str, *, account: int, installation: int, login: str = "") -> bytes:
        owner = {"id": account, "login": login or f"org{account}"}
        return json.dumps({"action": action, "installation": {"id": installation, "account": owner}}).encode()

    def repositories(self, action: str, *, account: int, installation: int, **numbers: int) -> bytes:
        """An `installation_repositories` delivery about these repositories of the account: `app=5` is org1/app, number 5."""
        owner = {"id": account, "login": f"org{account}"}
        named = [{"id": number, "full_name": f"org{account}/{name}"} for name, number in numbers.items()]
        body = {
            "action": action,
            "installation": {"id": installation, "account": owner},
            f"repositories_{action}": named,
        }
        return json.dumps(body).encode()

    async def deliver(self, *payloads: bytes, event: str = "workflow_job") -> list[str]:
        """Store and handle; gives what came of each, in order."""
        names = []
        for payload in payloads:
            self._written += 1
            names.append(f"d-{self._written}")
            await self.ledger.deliveries.store(names[-1], event, payload)
        await self.worker.drain()
        return [await self.outcome(name) for name in names]

    async def outcome(self, delivery: str) -> str:
        ((outcome,),) = await self.bench.ask("SELECT outcome FROM deliveries WHERE delivery_id = %s", [delivery])
        return outcome

    def counted(self, action: str, outcome: str) -> float:
        labels = {"action": action, "outcome": outcome}
        return self.registry.get_sample_value("paddock_webhook_deliveries_total", labels) or 0.0


async def until(true: Any, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(0.01)
