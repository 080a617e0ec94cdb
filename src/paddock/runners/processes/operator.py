"""The runner subsystem of the operator put together: which informers and controllers one process runs.

`paddock operator` runs this against a cluster, `paddock up` against its own API: the same controllers, the same flags.
"""

from collections.abc import Callable

from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.controller import Controller, Reconcile, Request
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.stalled import Stalls
from paddock.kube.store import CacheChange, by_label
from paddock.runners.api import POOL_LABEL, RUNNER_LABEL, RunnerPool
from paddock.runners.pools.autoscaler import Autoscaler
from paddock.runners.pools.controller import PoolCaches, PoolContext, PoolReconciler, between_looks, its_pool
from paddock.runners.pools.mac_marks import MacMarks
from paddock.runners.pools.metrics import PoolCollector
from paddock.runners.pools.nodes import closed, healthy, nodes_of
from paddock.runners.pools.profiles_controller import ProfileReconciler, its_table, table_changed
from paddock.runners.pools.retirement import RetirementApi
from paddock.runners.pools.settings import PoolSettings

__all__ = ["RunnerOperator"]

_WORKERS = 4


class RunnerOperator:
    """Adds the runner subsystem's controllers to a manager, and offers their caches to whoever shows them.

    `pods` holds runner Pods only, and is indexed by pool, as `accounts` is.
    """

    def __init__(
        self,
        manager: Manager,
        client: Client,
        retirement: RetirementApi,
        settings: PoolSettings,
    ) -> None:
        clock, rng, metrics = manager.clock, manager.rng, manager.metrics
        self._clock, self._rng, self._metrics = clock, rng, metrics
        namespace = settings.namespace
        self.pools = Informer(client, RunnerPool, clock=clock, rng=rng, metrics=metrics, namespace=namespace)
        self.pods = Informer(
            client,
            Pod,
            clock=clock,
            rng=rng,
            metrics=metrics,
            namespace=namespace,
            label_selector=f"{RUNNER_LABEL}=true",
            indexers={POOL_LABEL: by_label(POOL_LABEL)},
            name="runner pods",
        )
        self.accounts = Informer(
            client,
            ServiceAccount,
            clock=clock,
            rng=rng,
            metrics=metrics,
            namespace=namespace,
            label_selector=POOL_LABEL,
            indexers={POOL_LABEL: by_label(POOL_LABEL)},
            name="runner service accounts",
        )
        self.nodes = Informer(client, Node, clock=clock, rng=rng, metrics=metrics, name="runner nodes")
        self.autoscaler = Autoscaler(client, retirement, self.pools.reader, self.nodes.reader, clock)
        recorder = EventRecorder(client, "paddock", clock=clock, rng=rng, metrics=metrics)
        self._stalls = Stalls(client, recorder, clock)
        keeper = PoolReconciler(
            PoolContext(
                client=client, retirement=retirement, settings=settings, recorder=recorder, clock=clock, rng=rng
            ),
            PoolCaches(pods=self.pods.reader, nodes=self.nodes.reader, pools=self.pools.reader),
        )
        metrics.registry.register(
            PoolCollector(
                self.pools.reader.list,
                self.nodes.reader.list,
                self.autoscaler.outlook,
                self.pods.reader.list,
                clock,
                lambda: keeper.start_timeouts,
            )
        )
        manager.add_runnable("runner events", recorder.run)
        marks = MacMarks(client, self.nodes.reader, retirement, recorder, clock)
        manager.add_periodic("Macs on which jobs fail", marks.once, every=MacMarks.EVERY, first_after=MacMarks.EVERY)
        manager.add_controller(
            self._controller("runner pool", keeper, rest=self._rest)
            .watches(self.pools)
            .watches(self.pods, its_pool)
            .watches(self.accounts, its_pool, predicate=lambda change: change.kind == "deleted")
            .watches(self.nodes, self._served_by, predicate=_usable_otherwise)
        )
        # A pass is due every few seconds anyway; only a changed spec, and a pool that is new or gone, cannot wait for it.
        manager.add_controller(
            self._controller("autoscaler", self.autoscaler).watches(self.pools, predicate=_spec_changed)
        )

        manager.add_controller(
            self._controller("profiles", ProfileReconciler(client, self.pools.reader, clock)).watches(
                self.pools, its_table, predicate=table_changed
            )
        )

    def _served_by(self, node: Node) -> list[Request]:
        """The pools of a Node's fleet."""
        return [
            Request(pool.metadata.namespace, pool.metadata.name)
            for pool in self.pools.reader.list()
            if nodes_of(pool, {node.metadata.name: node})
        ]

    def _rest(self, pool: Request) -> float:
        return between_looks(len(self.pods.reader.by_index(POOL_LABEL, pool.name)))

    def _controller(
        self, name: str, reconcile: Reconcile, *, rest: Callable[[Request], float] | None = None
    ) -> Controller:
        return Controller(
            name,
            reconcile,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
            workers=_WORKERS,
            rest=rest,
            stalls=self._stalls,
        )


def _usable_otherwise(change: CacheChange[Node]) -> bool:
    """Whether a Node came, went, or can be used where it could not, or the other way round. Heartbeats are none of these."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (closed(old), healthy(old), old.metadata.labels) != (closed(new), healthy(new), new.metadata.labels)


def _spec_changed(change: CacheChange[RunnerPool]) -> bool:
    """Whether more than status or labels changed; a deletion counts, because it changes the generation as well."""
    return (
        change.old is None
        or change.new is None
        or change.old.metadata.generation != change.new.metadata.generation
        or change.old.metadata.deletion_timestamp != change.new.metadata.deletion_timestamp
    )
