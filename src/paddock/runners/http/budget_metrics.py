"""What Prometheus reads of GitHub's request budgets. Installations are no label: there may be thousands."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.clients.github import BudgetView
from paddock.clients.github.contract import Priority

__all__ = ["BudgetCollector"]


class BudgetCollector(Collector):
    """As the budgets are known at the moment of the scrape; no series before GitHub has told one."""

    def __init__(self, budgets: Callable[[], Sequence[BudgetView]]) -> None:
        self._budgets = budgets

    def collect(self) -> Iterator[Metric]:
        known = [view for view in self._budgets() if view.limit > 0]
        if not known:
            return
        least = GaugeMetricFamily(
            "paddock_github_budget_least_ratio",
            "What is left of GitHub's request budget, of whoever has least: 0 to 1.",
        )
        least.add_metric([], min(view.remaining / view.limit for view in known))
        refused = GaugeMetricFamily(
            "paddock_github_budget_refused_installations",
            "Installations whose calls of this purpose wait for their budget.",
            labels=["purpose"],
        )
        for priority in Priority:
            refused.add_metric([priority.name.lower()], sum(priority in view.refused for view in known))
        yield from (least, refused)
