"""What GitHub's own clients of scale sets ask beyond ours: they refuse a token without an algorithm, and look a runner up by name."""

from typing import Any

import httpx2
import jwt
from unit.simulator.github.rig import Rig

SETS = "/broker/rest/_apis/runtime/runnerscalesets"
AGENTS = "/broker/rest/_apis/distributedtask/pools/0/agents"


class Service:
    """The service behind scale sets, as its official clients reach it."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.tokens: list[str] = []

    async def begin(self) -> None:
        registration = (await self._rig.call("POST", "/orgs/acme/actions/runners/registration-token")).json()["token"]
        answer = await self._rig.http.post(
            "/actions/runner-registration",
            headers={"Authorization": f"RemoteAuth {registration}"},
            json={"url": "https://github.com/acme", "runner_event": "register"},
        )
        self.tokens = [registration, answer.json()["token"]]

    async def __call__(self, method: str, path: str, **rest: Any) -> httpx2.Response:
        return await self._rig.http.request(
            method, path, headers={"Authorization": f"Bearer {self.tokens[-1]}"}, **rest
        )

    async def made(self, **more: Any) -> dict[str, Any]:
        labels = [{"name": "macos-26", "type": "System"}, {"name": "fast", "type": "User"}]
        body = {
            "name": "macos-26",
            "runnerGroupId": 1,
            "labels": labels,
            "RunnerSetting": {"disableUpdate": True},
            **more,
        }
        return (await self("POST", SETS, json=body)).json()


async def test_every_token_names_its_algorithm_and_its_end(rig: Rig):
    service = Service(rig)
    await service.begin()
    for token in service.tokens:
        assert jwt.get_unverified_header(token) == {"typ": "JWT", "alg": "RS256"}
        assert jwt.decode(token, options={"verify_signature": False})["exp"] > rig.clock.now().timestamp()


async def test_a_set_says_all_that_it_was_made_with_and_where_runners_are_made(rig: Rig):
    service = Service(rig)
    await service.begin()
    made = await service.made()
    shown = (await service("GET", f"{SETS}/{made['id']}")).json()
    assert shown == made
    assert {label["name"]: label["type"] for label in shown["labels"]} == {"macos-26": "System", "fast": "User"}
    assert shown["RunnerSetting"] == {"disableUpdate": True}
    assert shown["runnerGroupName"] == "Default"
    assert shown["createdOn"] == rig.clock.now().isoformat()
    assert shown["runnerJitConfigUrl"].endswith(f"{SETS}/{made['id']}/generatejitconfig")
    changed = await service("PATCH", f"{SETS}/{made['id']}", json={"RunnerSetting": {"disableUpdate": False}})
    assert changed.json()["RunnerSetting"] == {"disableUpdate": False}


async def test_a_runner_is_found_by_number_and_by_name_and_one_that_is_gone_in_the_services_own_words(rig: Rig):
    service = Service(rig)
    await service.begin()
    number = (await service.made())["id"]
    minted = await service("POST", f"{SETS}/{number}/generatejitconfig", json={"name": "mac-1", "workFolder": "_work"})
    runner = minted.json()["runner"]
    assert (await service("POST", f"{SETS}/{number}/generatejitconfig", json={"name": "mac-1"})).status_code == 409
    assert (await service("GET", f"{AGENTS}?agentName=mac-1")).json() == {"count": 1, "value": [runner]}
    assert (await service("GET", f"{AGENTS}/{runner['id']}")).json() == runner
    assert (await service("GET", f"{AGENTS}?agentName=mac-2")).json() == {"count": 0, "value": []}
    assert (await service("DELETE", f"{AGENTS}/{runner['id']}")).status_code == 204
    gone = await service("GET", f"{AGENTS}/{runner['id']}")
    assert gone.status_code == 404
    assert "AgentNotFoundException" in gone.json()["typeName"]
