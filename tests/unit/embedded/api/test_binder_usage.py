"""The binder keeps count of what Pods take as they come, move and go: at any moment it is what adding all of them up gives."""

import random
from collections import Counter
from decimal import Decimal
from typing import Any

from paddock.embedded.api.scheduler import Usage, requests_of, still_bound
from paddock.embedded.store import Key

Json = dict[str, Any]


def _pod(rng: random.Random) -> Json:
    requests = {"cpu": rng.choice(["1", "500m"]), "tuist.dev/vm": rng.choice(["1", "2"])}
    return {
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": rng.choice(["", "mac-1", "mac-2"]),
            "containers": [{"name": "runner", "resources": {"requests": requests}}],
        },
        "status": {"phase": rng.choice(["Pending", "Running", "Running", "Succeeded", "Failed"])},
    }


def _added_up(pods: dict[Key, Json]) -> dict[str, Counter[str]]:
    used: dict[str, Counter[str]] = {}
    for pod in pods.values():
        node = pod["spec"]["nodeName"]
        if node and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            used.setdefault(node, Counter()).update(requests_of(pod))
    return used


def test_what_is_taken_of_each_node_is_always_the_sum_of_its_pods() -> None:
    rng, usage, pods = random.Random(1), Usage(), dict[Key, Json]()
    keys = [Key("pods", "default", f"p{number}") for number in range(12)]
    for _ in range(2000):
        key = rng.choice(keys)
        if rng.random() < 0.3:
            pods.pop(key, None)
        else:
            pods[key] = _pod(rng)
        usage.count(key, pods.get(key))
        wanted = _added_up(pods)
        assert set(usage.by_node) == set(wanted)
        for node, taken in wanted.items():
            found = {name: amount for name, amount in usage.by_node[node].items() if amount != Decimal(0)}
            assert found == dict(taken)


def test_a_change_from_before_the_binding_that_is_shown_late_frees_no_place() -> None:
    def seen(uid: str, node: str) -> Json:
        return {"metadata": {"uid": uid}, "spec": {"nodeName": node} if node else {}}

    assert still_bound(seen("a", ""), seen("a", "mac-1"))["spec"]["nodeName"] == "mac-1"
    assert still_bound(seen("a", "mac-2"), seen("a", ""))["spec"]["nodeName"] == "mac-2"
    assert still_bound(seen("b", ""), seen("a", "mac-1"))["spec"] == {}, "another Pod of its name"
    assert still_bound(seen("a", ""), None)["spec"] == {}
