"""Prepares the Mac that it runs on, over SSH to itself, twice: `.github/workflows/macos.yml` runs it on a hosted Mac.

Every step of the bootstrap that needs no second machine and no password runs with the real client and the real scripts, each by
itself, so that one which fails hides no other. The second time nothing may change. The automatic login needs the password of a
rented Mac and is left out by the step itself; the agent is installed and started as a program, and not as a Node.
"""

import argparse
import asyncio
import getpass
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.base.rng import unseeded
from paddock.base.secrets import Secret
from paddock.clients.ssh import AsyncSsh
from paddock.hosts.bootstrap import Bootstrap, Failed, FleetConfig, PerHost
from paddock.hosts.bootstrap.agent_bundle import AGENT
from paddock.hosts.bootstrap.plan import Payload
from paddock.hosts.bootstrap.steps import all_steps

_KUBECONFIG = "apiVersion: v1\nkind: Config\n"


def fleet_of(bundle: Path) -> FleetConfig:
    """What a fleet without a fleet file has, but for what others make and for the agent as a Node."""
    agent = Payload(
        name="paddock-node-agent",
        source=str(bundle),
        sha256=hashlib.sha256(bundle.read_bytes()).hexdigest(),
        form="tarball",
        install_to="/usr/local/lib/paddock/node-agent",
        command=AGENT,
        program="bin/paddock-node-agent",
        health_check=(AGENT, "--version"),
    )
    return FleetConfig(payloads=(agent,))


async def twice(bootstrap: Bootstrap, host: PerHost, fleet: FleetConfig, say: Callable[[str], None]) -> list[str]:
    """What is wrong: steps that fail, and steps that change something the second time."""
    wrong = []
    for time in ("first", "second"):
        for step in all_steps(fleet):
            outcome = await bootstrap.only(host, fleet, [step])
            if isinstance(outcome, Failed):
                wrong.append(f"{step.name}, the {time} time: {outcome.sentence}")
                say(f"{time:7}{step.name}: failed\n{outcome.stderr}")
                continue
            left_out = "; ".join(reason for _, reason in outcome.skipped)
            say(f"{time:7}{step.name}: {left_out or ('changed' if outcome.changed_steps else 'unchanged')}")
            if time == "second" and outcome.changed_steps:
                wrong.append(f"{step.name} changes something again")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", type=Path, required=True, help="a private key that this user may log in with")
    parser.add_argument("--bundle", type=Path, required=True)
    given = parser.parse_args()
    host = PerHost(
        address="127.0.0.1",
        key=Secret(given.key.read_text(encoding="utf-8")),
        node_name="hosted-mac",
        username=getpass.getuser(),
        provider_id="scw-applesilicon://fr-par-1/00000000-0000-0000-0000-000000000000",
        kubeconfig=Secret(_KUBECONFIG),
    )
    bootstrap = Bootstrap(AsyncSsh(), SystemClock(), unseeded())
    wrong = asyncio.run(twice(bootstrap, host, fleet_of(given.bundle), print))
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
