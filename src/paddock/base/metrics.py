"""Metrics: one registry a process, handed around rather than global, so that two processes fit in one test."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

__all__ = ["CONTENT_TYPE_LATEST", "CollectorRegistry", "exposition"]


def exposition(registry: CollectorRegistry) -> bytes:
    """The registry in the text form that Prometheus scrapes."""
    return generate_latest(registry)
