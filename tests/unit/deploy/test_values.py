"""values.yaml: every key does something, and every key that a template reads is there to be found."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from unit.deploy.rendering import CHART, FULL, templates

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
OF_A_LIST: dict[str, Any] = {"tolerations": [{"key": "changed"}], "imagePullSecrets": [{"name": "changed"}]}
OF_A_LIST |= {f"{who}From": [{"ipBlock": {"cidr": "192.0.2.0/24"}}] for who in ("monitoring", "apiServer", "ingress")}
OF_AN_ENUM = {"nodeIdentity": "ServiceAccount", "pullPolicy": "Always", "logLevel": "debug", "tag": "changed"}
OF_AN_ENUM |= {"digest": f"sha256:{'a' * 64}", "podSecurity": "privileged"}


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in ("resources", "labels"):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else copy.deepcopy(value)
    return found


def value_at(values: dict[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def another(key: str, value: Any) -> Any:
    if key == "sha256":
        return "c" * 64
    if key in OF_AN_ENUM:
        return OF_AN_ENUM[key]
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}changed" if key != "adoptPoolPrefix" else "changed-"
        case list():
            return OF_A_LIST.get(key, ["--changed"])
        case dict() if key == "runnerPools":
            return {**value, "changed": {"replicas": 1}}
        case _ if key == "limits":
            return {"bolt": {"linux": {"vcpus": 1, "memoryMB": 1024}}}
        case _:
            return {**value, "changed": "yes"}


EVERYTHING = merged(
    merged(VALUES, FULL), {name: {"enabled": True} for name in VALUES if name.endswith("Fleet")}
)  # fmt: skip


@pytest.mark.parametrize("path", list(leaves(VALUES)), ids=".".join)
def test_every_value_changes_what_is_rendered(path: tuple[str, ...]):
    *above, key = path
    changed = copy.deepcopy(EVERYTHING)
    value_at(changed, tuple(above))[key] = another(key, value_at(EVERYTHING, path))
    if path == ("dispatch", "enabled"):
        changed["runnerPools"] = {}
    assert templates(changed) != templates(EVERYTHING)


def test_every_value_that_a_template_reads_is_in_values_yaml():
    for template in (CHART / "templates").iterdir():
        for found in re.findall(r"\.Values\.([A-Za-z][A-Za-z.]*)", template.read_text()):
            assert value_at(VALUES, tuple(found.split("."))) is not None, f"{template.name}: {found}"


def test_the_schema_knows_the_keys_of_values_yaml_and_no_others():
    def keys(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        if "$ref" in schema:
            schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
        if not schema.get("properties"):
            yield path
        for key, below in schema.get("properties", {}).items():
            if key != "global":
                yield from keys(below, (*path, key))

    def plain(path: tuple[str, ...]) -> bool:
        return not path[0].endswith("Fleet")

    assert set(keys(SCHEMA)) == {path for path in leaves(VALUES) if plain(path)}
    fleet = set(keys({"$ref": "#/definitions/fleet"}))
    assert fleet == {path[1:] for path in leaves(VALUES) if not plain(path)}


def test_every_group_of_values_is_explained():
    """A comment stands above each top-level value or inside it, unless its keys speak for themselves."""
    text = (CHART / "values.yaml").read_text()
    blocks = re.split(r"\n(?=[A-Za-z])", text)
    above = ""
    for block in blocks:
        name = block.partition(":")[0]
        told = "#" in block or above.rstrip().rpartition("\n")[2].startswith("#")
        assert told or name in PLAIN, name
        above = block


PLAIN = {"imagePullSecrets", "runnersFleet", "buildersFleet", "networkPolicies"}
