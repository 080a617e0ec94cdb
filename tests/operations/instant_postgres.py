"""The ledger's real Postgres under virtual time; it is part of the simulator, because the soak uses it, too."""

from paddock.simulator.instant_postgres import Hints, InstantListener, InstantPool, ledger_of, pools_closed_at_the_end

__all__ = ["Hints", "InstantListener", "InstantPool", "ledger_of", "pools_closed_at_the_end"]
