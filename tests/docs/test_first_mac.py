"""The guide to the first Mac: it is found, what it names exists, and what it lets people apply is accepted."""

import re

import msgspec
import yaml
from docs.documents import ROOT

from paddock.cli.node_agent import command as node_agent
from paddock.cli.up import command as up
from paddock.embedded.definitions import our_definitions
from paddock.hosts.api import MacFleet
from paddock.hosts.bootstrap.agent_bundle import AGENT
from paddock.hosts.bootstrap.fleet_key import PRIVATE, secret_name
from paddock.hosts.bootstrap.pins import known_version
from paddock.node.settings import AgentSettings
from paddock.runners.api import RunnerPool

GUIDE = ROOT / "docs" / "first-mac.md"
TEXT = GUIDE.read_text(encoding="utf-8")
FLEET, POOL = yaml.safe_load_all((ROOT / "docs" / "examples" / "first-mac.yaml").read_text(encoding="utf-8"))


def test_people_find_it():
    for page in ("README.md", "docs/install.md", "docs/README.md"):
        assert "first-mac.md" in (ROOT / page).read_text(encoding="utf-8"), page


def test_every_flag_in_it_is_one_of_paddock_up():
    known = {option for parameter in up.params for option in parameter.opts}
    known |= {
        option for parameter in [*node_agent.params, *node_agent.commands["check"].params] for option in parameter.opts
    }
    [line] = [line for line in TEXT.splitlines() if line.startswith("paddock up ")]
    assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= known
    assert "--advertise-address" in line


def test_its_ports_are_those_that_paddock_listens_on():
    default = {parameter.name: parameter.default for parameter in up.params}
    assert re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE) == [
        str(default["kube_port"]),
        str(default["dispatch_port"]),
    ]


def test_its_objects_are_accepted_and_belong_together():
    fleet, pool = msgspec.convert(FLEET, MacFleet), msgspec.convert(POOL, RunnerPool)
    kinds = {definition["spec"]["names"]["kind"] for definition in our_definitions()}
    assert {FLEET["kind"], POOL["kind"]} <= kinds
    assert fleet.spec.template.spec.fleet_name == pool.spec.fleet_selector
    assert fleet.spec.template.spec.source == "Order"
    assert f"runs-on: [self-hosted, {pool.spec.dispatch_label}]" in TEXT
    assert pool.spec.image in TEXT
    # Two of them fit the Mac that it orders: 10 cores, 16 GB, of which the agent keeps a part for macOS.
    assert 2 * pool.vcpus <= 10
    assert 2 * pool.spec.pod_memory_mb <= 16 * 1024 - AgentSettings.__dataclass_fields__["reserve_memory_mb"].default


def test_the_key_and_the_program_on_the_mac_have_the_names_that_it_gives():
    assert f"get secret {secret_name(FLEET['metadata']['name'])} " in TEXT
    assert f".data.{PRIVATE} " in TEXT
    assert f" {AGENT} " in TEXT


def test_what_is_pinned_is_named_by_the_pages_that_have_it_typed():
    values = yaml.safe_load((ROOT / "docs" / "examples" / "values.yaml").read_text(encoding="utf-8"))
    assert values["macosFleet"]["tart"]["version"] == known_version("tart")
    assert (
        f"# softnet: {{version: {known_version('softnet')}}}"
        in (ROOT / "docs" / "examples" / "values.yaml").read_text()
    )
    assert f"--tart-version {known_version('tart')} --accept-tart-licence" in TEXT
    assert "shasum" not in TEXT
