"""What the simulated API answers, byte for byte where it matters."""

from typing import Any

import httpx2
import pytest
from doubles.clocks import SteppedClock

from paddock.clients.scaleway import ScalewayClient
from paddock.simulator.cloud import Fault, FaultKind, SimulatedCloud

BASE = "/apple-silicon/v1alpha1/zones/fr-par-1"
OTHER_PROJECT = "0c4ad9cc-0000-4000-8000-000000000000"


async def ask(
    cloud: SimulatedCloud, method: str, path: str, body: Any = None, *, token: str | None = None
) -> httpx2.Response:
    headers = {} if token == "" else {"X-Auth-Token": token or cloud.state.secret_key}
    async with httpx2.AsyncClient(transport=cloud.transport(), base_url="http://127.0.0.1") as http:
        return await http.request(method, path, json=body, headers=headers)


@pytest.mark.parametrize(
    ("method", "suffix", "body"),
    [
        ("PATCH", "", {"name": "after"}),
        ("PATCH", "", {"schedule_deletion": True}),
        ("POST", "/reboot", {}),
        ("POST", "/reinstall", {"enable_kext": False}),
    ],
)
async def test_every_answer_to_a_mutation_is_sealed_and_the_get_after_it_is_not(
    cloud: SimulatedCloud, method: str, suffix: str, body: dict[str, Any]
):
    host = cloud.add_host("mine", age=3600)
    answer = (await ask(cloud, method, f"{BASE}/servers/{host.id}{suffix}", body)).json()
    assert (answer["sudo_password"], answer["vnc_url"]) == ("<sealed>", "<sealed>")
    read = (await ask(cloud, "GET", f"{BASE}/servers/{host.id}")).json()
    assert read["sudo_password"] == host.password
    assert read["vnc_url"] == f"vnc://m1:{host.password}@{host.ip}:59010"


async def test_a_sealed_window_covers_gets_and_lists(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.add_host("mine")
    cloud.behaviour.sealed_after_rename = 60
    await ask(cloud, "PATCH", f"{BASE}/servers/{host.id}", {"name": "adopted"})
    assert (await ask(cloud, "GET", f"{BASE}/servers/{host.id}")).json()["sudo_password"] == "<sealed>"
    assert (await ask(cloud, "GET", f"{BASE}/servers")).json()["servers"][0]["vnc_url"] == "<sealed>"
    clock.step(60)
    assert (await ask(cloud, "GET", f"{BASE}/servers/{host.id}")).json()["sudo_password"] == host.password


async def test_pages_hold_at_most_a_hundred_and_count_everything(cloud: SimulatedCloud):
    cloud.seed_pool(130)
    first = (await ask(cloud, "GET", f"{BASE}/servers?page=1&page_size=100")).json()
    second = (await ask(cloud, "GET", f"{BASE}/servers?page=2&page_size=100")).json()
    beyond = (await ask(cloud, "GET", f"{BASE}/servers?page=3&page_size=100")).json()
    assert [len(page["servers"]) for page in (first, second, beyond)] == [100, 30, 0]
    assert {page["total_count"] for page in (first, second, beyond)} == {130}
    assert (await ask(cloud, "GET", f"{BASE}/servers?page_size=101")).json()["type"] == "invalid_arguments"
    assert (await ask(cloud, "GET", f"{BASE}/servers?page=0")).status_code == 400


async def test_lists_come_in_the_order_that_was_asked_for(cloud: SimulatedCloud):
    cloud.seed_pool(5)
    oldest_first = (await ask(cloud, "GET", f"{BASE}/servers?order_by=created_at_asc")).json()["servers"]
    newest_first = (await ask(cloud, "GET", f"{BASE}/servers?order_by=created_at_desc")).json()["servers"]
    assert oldest_first == newest_first[::-1]
    assert oldest_first == sorted(oldest_first, key=lambda server: server["created_at"])


@pytest.mark.parametrize(
    ("shape", "status", "kind", "dated"),
    [
        ("typed", 412, "precondition_failed", True),
        ("mismatched", 400, "precondition_failed", True),
        ("bare", 412, None, True),
        ("text", 412, None, False),
    ],
)
async def test_the_billing_floor_has_several_shapes(
    cloud: SimulatedCloud, shape: str, status: int, kind: str | None, dated: bool
):
    cloud.behaviour.floor_shape = shape  # pyright: ignore[reportAttributeAccessIssue] - one of the four
    host = cloud.add_host("mine", age=60)
    answer = await ask(cloud, "DELETE", f"{BASE}/servers/{host.id}")
    assert answer.status_code == status
    assert (f"cannot be deleted before {host.deletable_at:%Y-%m-%d %H:%M:%S}" in answer.text) is dated
    if answer.headers["content-type"] == "application/json":
        assert answer.json().get("type") == kind


async def test_a_busy_host_refuses_with_the_state_it_is_in(cloud: SimulatedCloud):
    host = cloud.add_host("mine")
    await ask(cloud, "POST", f"{BASE}/servers/{host.id}/reinstall", {"enable_kext": False})
    for method, suffix in (("POST", "/reboot"), ("POST", "/reinstall"), ("DELETE", "")):
        answer = await ask(cloud, method, f"{BASE}/servers/{host.id}{suffix}")
        assert answer.status_code == 409
        assert (answer.json()["type"], answer.json()["current_state"]) == ("transient_state", "reinstalling")


async def test_the_404_of_a_server_that_never_was_and_the_403_of_one_that_is_gone(cloud: SimulatedCloud):
    host = cloud.add_host("mine", age=2 * 86400)
    assert (await ask(cloud, "DELETE", f"{BASE}/servers/{host.id}")).status_code == 204
    gone = await ask(cloud, "GET", f"{BASE}/servers/{host.id}")
    never = await ask(cloud, "GET", f"{BASE}/servers/{OTHER_PROJECT}")
    assert (gone.status_code, gone.json()["type"]) == (403, "permissions_denied")
    assert (never.status_code, never.json()["type"]) == (404, "not_found")


async def test_a_key_sees_its_own_projects_only(cloud: SimulatedCloud):
    ours = cloud.add_host("ours")
    theirs = cloud.add_host("theirs", project_id=OTHER_PROJECT)
    assert [s["id"] for s in (await ask(cloud, "GET", f"{BASE}/servers")).json()["servers"]] == [ours.id]
    assert (await ask(cloud, "GET", f"{BASE}/servers?project_id={OTHER_PROJECT}")).status_code == 403
    assert (await ask(cloud, "PATCH", f"{BASE}/servers/{theirs.id}", {"name": "stolen"})).status_code == 403
    assert theirs.name == "theirs"
    assert (await ask(cloud, "GET", "/iam/v1alpha1/ssh-keys")).status_code == 403, "the project must be named"


async def test_keys_are_refused_in_the_shapes_of_the_real_api(cloud: SimulatedCloud):
    cloud.add_key("powerless", permissions=[])
    nobody = await ask(cloud, "GET", f"{BASE}/servers", token="")
    unknown = await ask(cloud, "GET", f"{BASE}/servers", token="whatever")
    powerless = await ask(cloud, "GET", f"{BASE}/servers", token="powerless")
    assert (nobody.status_code, nobody.json()["type"]) == (401, "denied_authentication")
    assert (unknown.status_code, unknown.json()["type"]) == (401, "denied_authentication")
    assert (powerless.status_code, powerless.json()["type"]) == (403, "permissions_denied")


async def test_stock_runs_out_and_comes_back(cloud: SimulatedCloud, clock: SteppedClock):
    cloud.set_stock("M4-S", 1)
    order = {"name": "n", "type": "M4-S", "project_id": cloud.state.project_id, "enable_kext": False}
    first = (await ask(cloud, "POST", f"{BASE}/servers", order)).json()
    assert (await ask(cloud, "POST", f"{BASE}/servers", order)).json()["type"] == "out_of_stock"
    clock.step(2 * 86400)
    await ask(cloud, "DELETE", f"{BASE}/servers/{first['id']}")
    assert (await ask(cloud, "POST", f"{BASE}/servers", order)).status_code == 200


async def test_a_quota_is_a_403_of_its_own_type(cloud: SimulatedCloud):
    cloud.behaviour.quota = 1
    cloud.add_host("mine")
    order = {"name": "n", "type": "M4-S", "project_id": cloud.state.project_id, "enable_kext": False}
    answer = await ask(cloud, "POST", f"{BASE}/servers", order)
    assert (answer.status_code, answer.json()["type"]) == (403, "quotas_exceeded")


async def test_an_image_is_retired_while_a_host_still_runs_it(cloud: SimulatedCloud):
    host = cloud.add_host("mine", image="macos-tahoe-26.3")
    cloud.retire_image("macos-tahoe-26.3")
    names = {os["name"] for os in (await ask(cloud, "GET", f"{BASE}/os?page_size=100")).json()["os"]}
    assert "macos-tahoe-26.3" not in names
    assert (await ask(cloud, "GET", f"{BASE}/servers/{host.id}")).json()["os"]["name"] == "macos-tahoe-26.3"
    answer = await ask(cloud, "POST", f"{BASE}/servers/{host.id}/reinstall", {"os_id": host.image})
    assert (answer.status_code, answer.json()["resource"]) == (404, "os")
    cloud.behaviour.retired_image_shape = "invalid_arguments"
    answer = await ask(cloud, "POST", f"{BASE}/servers/{host.id}/reinstall", {"os_id": host.image})
    assert answer.json()["type"] == "invalid_arguments"


async def test_the_default_image_drifts_under_an_unpinned_reinstall(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.add_host("mine", image="macos-tahoe-26.3")
    cloud.set_default_image("M4-M", "macos-sequoia-15.6")
    await ask(cloud, "POST", f"{BASE}/servers/{host.id}/reinstall", {"enable_kext": False})
    clock.step(1200)
    assert (await ask(cloud, "GET", f"{BASE}/servers/{host.id}")).json()["os"]["family"] == "Sequoia"


async def test_a_foreign_rename_wins_like_any_other(cloud: SimulatedCloud, client: ScalewayClient):
    host = cloud.add_host("tuist-pool-1")
    await client.rename("fr-par-1", host.id, "tuist-claim-pending-1")
    cloud.foreign_rename(host.id, "somebody-elses")
    assert (await client.get_server("fr-par-1", host.id)).server.name == "somebody-elses"


async def test_the_audit_tells_what_really_happened(cloud: SimulatedCloud):
    host = cloud.add_host("before")
    cloud.inject(Fault(kind=FaultKind.BAD_GATEWAY, operations=("rename",), after_effect=True))
    cloud.inject(Fault(kind=FaultKind.BAD_GATEWAY, operations=("reboot",)))
    await ask(cloud, "PATCH", f"{BASE}/servers/{host.id}", {"name": "after"})
    await ask(cloud, "POST", f"{BASE}/servers/{host.id}/reboot", {})
    await ask(cloud, "GET", f"{BASE}/servers/{host.id}")
    told = [(e.method, e.operation, e.status, e.effect, e.fault, e.server_id == host.id) for e in cloud.audit]
    assert told == [
        ("PATCH", "rename", 502, True, "bad_gateway", True),
        ("POST", "reboot", 502, False, "bad_gateway", True),
        ("GET", "get", 200, False, "", True),
    ]


async def test_a_fault_strikes_where_when_and_as_often_as_it_is_told(cloud: SimulatedCloud):
    one, other = cloud.add_host("one"), cloud.add_host("other")
    cloud.inject(Fault(kind=FaultKind.EMPTY_503, operations=("get",), server_id=one.id, skip=1, times=2))
    answers = [(await ask(cloud, "GET", f"{BASE}/servers/{one.id}")).status_code for _ in range(5)]
    assert answers == [200, 503, 503, 200, 200]
    assert (await ask(cloud, "GET", f"{BASE}/servers/{other.id}")).status_code == 200
    assert cloud.faults.pending == []


async def test_a_fault_by_chance_strikes_now_and_then(cloud: SimulatedCloud):
    cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, probability=0.3, times=None))
    answers = [(await ask(cloud, "GET", f"{BASE}/os")).status_code for _ in range(200)]
    assert 30 < answers.count(500) < 90
    cloud.heal()
    assert (await ask(cloud, "GET", f"{BASE}/os")).status_code == 200


async def test_too_many_requests_a_second_are_refused_with_a_retry_after(cloud: SimulatedCloud, clock: SteppedClock):
    cloud.behaviour.requests_per_second = 3
    answers = [await ask(cloud, "GET", f"{BASE}/os") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers["Retry-After"] == "1"
    clock.step(1)
    assert (await ask(cloud, "GET", f"{BASE}/os")).status_code == 200


async def test_a_slow_cloud_takes_the_time_of_the_injected_clock(cloud: SimulatedCloud, clock: SteppedClock):
    cloud.inject(Fault(kind=FaultKind.SLOW, delay=25))
    await ask(cloud, "GET", f"{BASE}/os")
    assert clock.slept == [25]


@pytest.mark.parametrize("kind", list(FaultKind))
async def test_every_fault_has_an_answer(cloud: SimulatedCloud, kind: FaultKind):
    cloud.seed_pool(2)
    cloud.inject(Fault(kind=kind, delay=1))
    try:
        answer = await ask(cloud, "GET", f"{BASE}/servers")
    except httpx2.ReadError:
        assert kind in {FaultKind.LOST, FaultKind.LATE}
    else:
        assert answer.status_code >= 400 or kind in {
            FaultKind.SLOW,
            FaultKind.NOT_JSON,
            FaultKind.EMPTY_LIST,
            FaultKind.SHORT_LIST,
        }


async def test_what_the_api_does_not_have_is_a_bare_404(cloud: SimulatedCloud):
    answer = await ask(cloud, "GET", "/apple-silicon/v1alpha1/zones/fr-par-1/teapots")
    assert answer.status_code == 404
    assert "type" not in answer.json()


async def test_an_image_is_named_as_people_read_it_and_is_quick_to_deliver_for_some_types_only(cloud: SimulatedCloud):
    """As the recorded lists of Scaleway have it."""
    cloud.publish_image("macos-golden-gate-27.0", "Golden Gate", "27.0")
    listed = {each["name"]: each for each in (await ask(cloud, "GET", f"{BASE}/os")).json()["os"]}
    assert listed["macos-tahoe-26.0"]["label"] == "macOS Tahoe 26.0"
    assert listed["devos-sequoia-15.6"]["label"] == "DevOS Sequoia 15.6"
    assert listed["fedora-asahi-remix"]["label"] == "Fedora Asahi Remix"
    assert listed["macos-golden-gate-27.0"]["label"] == "macOS Golden Gate 27.0"
    quick = {
        name: {each["server_type"] for each in image["supported_server_types"] if each["fast_delivery_available"]}
        for name, image in listed.items()
    }
    assert quick["macos-tahoe-26.0"] == {"M2-M", "M2-L"}
    assert quick["macos-sequoia-15.6"] == {"M2-M", "M2-L", "M4-S"}
