"""The Mac's key for the gateway, given to its agent's own program. It is no step of a configuration: every key is another."""

import msgspec

from paddock.clients.gateway.mac_key import KeyAnswer
from paddock.hosts.bootstrap.contract import KeyOffer
from paddock.hosts.bootstrap.errors import FailureKind, StepFailedError
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost, fill
from paddock.hosts.bootstrap.steps.step import StepShell

__all__ = ["take_key"]


async def take_key(shell: StepShell, host: PerHost, fleet: FleetConfig, offer: KeyOffer | None) -> KeyAnswer:
    """What the Mac answers to a key; without an `offer` to the question which it holds. Raises StepFailedError."""
    agent = fleet.agent
    if agent is None or agent.job is None:
        raise StepFailedError(
            FailureKind.CONFIGURATION, "the fleet's configuration names no node agent that could hold a key"
        )
    secrets = (offer.key,) if offer is not None else ()
    arguments = [fill(argument, host, fleet) for argument in agent.job.arguments]
    result = await shell.run(
        "take_key", str(offer.number if offer else 0), agent.job.run_as, *arguments, secrets=secrets
    )
    try:
        return msgspec.json.decode("".join(result.all("answer")), type=KeyAnswer)
    except msgspec.MsgspecError:
        # What it printed instead is not repeated: nobody knows what is in it.
        raise StepFailedError(FailureKind.STEP_FAILED, "its node agent did not answer as to a key") from None
