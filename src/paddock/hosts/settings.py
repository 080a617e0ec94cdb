"""The operator's flags, as values."""

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from paddock.hosts.names import problem_with_prefix
from paddock.hosts.recovery import Tiers

__all__ = ["HostSettings"]


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What the host subsystem is told from outside. The defaults are those of the flags."""

    namespace: str = "default"
    default_adopt_pool_prefix: str = ""
    zones: tuple[str, ...] = ("fr-par-1",)
    claim_name_prefix: str = ""
    reclaim_interval: float = 900.0
    reclaim_cap: int = 3
    inventory_interval: float = 30.0
    tiers: Tiers = field(default_factory=Tiers)
    lease_duration: float = 40.0
    renew_deadline: float = 30.0
    request_timeout: float = 10.0
    workers: int = 16
    watch_filter: str = ""
    watch_namespaces: tuple[str, ...] = ()
    expect_nodes: bool = False
    order_cap: int = 10
    order_budget: Decimal | None = None
    retire_after_quarantines: int = 0
    bootstrap_spread: float = 20.0
    manage_kubeconfig: bool = True
    node_identity: str = "Certificate"
    core_token_lifetime: timedelta = timedelta(days=7)
    gateway: str = ""
    """Where Macs find the gateway. Empty: there is none, and no Mac is given a key for it."""

    def __post_init__(self) -> None:
        if self.claim_name_prefix and not self.default_adopt_pool_prefix:
            raise ValueError(
                "--orphan-reclaim-claim-name-prefix needs --default-adopt-pool-prefix: a reclaimed host goes back to that pool"
            )
        if problem := problem_with_prefix(self.default_adopt_pool_prefix):
            raise ValueError(f"--default-adopt-pool-prefix: {problem}")
        if self.lease_duration and self.request_timeout >= self.renew_deadline:
            raise ValueError(
                f"request_timeout ({self.request_timeout:.0f} s) must be shorter than renew_deadline "
                f"({self.renew_deadline:.0f} s), or no mutation could ever be sent under a lease"
            )

    @property
    def settle(self) -> timedelta:
        """How long after a mutation nothing sent before it can arrive: lease duration + two request timeouts."""
        return timedelta(seconds=self.lease_duration + 2 * self.request_timeout)
