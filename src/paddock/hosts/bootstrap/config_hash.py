"""One word for everything that the fleet's configuration puts on a live host.  (pure)"""

import hashlib

from paddock.hosts.bootstrap.plan import PLACEHOLDER_HOST, FleetConfig
from paddock.hosts.bootstrap.steps import live_steps

__all__ = ["config_hash"]


def config_hash(fleet: FleetConfig) -> str:
    """The hash of every script, file and checksum that an update would push, rendered by the very code that pushes it.

    It is rendered for a placeholder, so nothing of a real host can be in it. Two fleets have one hash only if an update
    does the same on both.
    """
    digest = hashlib.sha256()
    for step in live_steps(fleet):
        for part in (step.name, *step.rendered(PLACEHOLDER_HOST, fleet)):
            # The length first: two lists of parts never run together into the same bytes.
            content = part.encode()
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()
