"""Nodes and Pods: what they are born with, how a Pod is bound, evicted and ended."""

from __future__ import annotations

from conformance.target import Api, Json, causes, refusal


def pod(name: str, **spec: object) -> Json:
    # Nobody but the case itself may put these on a node.
    body: Json = {"automountServiceAccountToken": False, "schedulerName": "by-hand", **spec}
    body.setdefault("containers", [{"name": "c", "image": "i"}])
    return {"metadata": {"name": name}, "spec": body}


async def ready_to_run(api: Api) -> None:
    async def there() -> bool:
        return (await api.http.get(f"{api.path('serviceaccounts')}/default")).status_code == 200

    await api.eventually(there)


async def node(api: Api) -> str:
    name = api.unique("node")
    await api.make("/api/v1/nodes", {"metadata": {"name": name}})
    return name


async def bound(api: Api, name: str, to: str) -> Json:
    await ready_to_run(api)
    await api.make(api.pods, pod(name))
    await api.make(f"{api.pods}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": to}})
    return await api.see(f"{api.pods}/{name}")


async def test_a_pod_is_born_pending_with_defaults(api: Api) -> None:
    await ready_to_run(api)
    made = await api.make(api.pods, pod("p", schedulerName=""))
    assert made["status"]["phase"] == "Pending"
    spec = made["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["serviceAccountName"] == "default"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert {t["key"] for t in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert made["metadata"]["generation"] == 1


async def test_a_pod_must_have_a_container_with_a_name_and_an_image(api: Api) -> None:
    await ready_to_run(api)
    answer = await api.http.post(api.pods, json={"metadata": {"name": "p"}, "spec": {"containers": []}})
    refusal(answer, 422, "Invalid")
    assert causes(answer)["spec.containers"] == "FieldValueRequired: Required value"
    answer = await api.http.post(api.pods, json={"metadata": {"name": "p"}, "spec": {"containers": [{"image": "i"}]}})
    assert causes(answer)["spec.containers[0].name"] == "FieldValueRequired: Required value"


async def test_the_spec_of_a_pod_is_fixed_but_for_images(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    answer = await api.patch(f"{api.pods}/p", {"spec": {"restartPolicy": "Never"}})
    assert "pod updates may not change fields other than" in refusal(answer, 422, "Invalid")


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    here = await node(api)
    await bound(api, "on", here)
    await api.make(api.pods, pod("off"))
    assert await api.names(api.pods, fieldSelector=f"spec.nodeName={here}") == ["on"]
    assert await api.names(api.pods, fieldSelector="spec.nodeName=") == ["off"]
    assert await api.names(api.pods, fieldSelector="status.phase=Pending") == ["off", "on"]
    assert await api.names(api.pods, fieldSelector="status.phase!=Pending") == []
    await api.delete(f"{api.pods}/on", {"gracePeriodSeconds": 0})
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_binding_puts_a_pod_on_a_node(api: Api) -> None:
    here = await node(api)
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    answer = await api.http.post(
        f"{api.pods}/p/binding",
        json={"metadata": {"name": "p"}, "target": {"apiVersion": "v1", "kind": "Node", "name": here}},
    )
    assert answer.status_code == 201
    assert answer.json() == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    seen = await api.see(f"{api.pods}/p")
    assert seen["spec"]["nodeName"] == here
    scheduled = [c for c in seen["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert [c["status"] for c in scheduled] == ["True"]
    again = await api.http.post(
        f"{api.pods}/p/binding", json={"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "other"}}
    )
    assert f'pod p is already assigned to node "{here}"' in refusal(again, 409, "Conflict")
    await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_pod_that_runs_nowhere_is_gone_at_once(api: Api) -> None:
    await ready_to_run(api)
    made = await api.make(api.pods, pod("p"))
    answer = await api.delete(f"{api.pods}/p")
    assert answer.status_code == 200
    assert answer.json()["kind"] == "Pod"
    assert answer.json()["metadata"]["uid"] == made["metadata"]["uid"]
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")


async def test_a_bound_pod_has_its_grace_period(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    marked = (await api.delete(f"{api.pods}/p")).json()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"]
    seen = await api.see(f"{api.pods}/p")
    assert seen["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    shorter = (await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 5})).json()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = (await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 60})).json()
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    final = await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
    assert final.status_code == 200
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_finished_pod_needs_no_grace(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    await api.patched(f"{api.pods}/p/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{api.pods}/p")
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_bound_pod_deleted_at_once_is_gone(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_an_eviction_deletes_the_pod(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": api.namespace}}
    answer = await api.http.post(f"{api.pods}/p/eviction", json=body)
    assert answer.status_code == 201
    assert answer.json()["status"] == "Success"
    seen = await api.see(f"{api.pods}/p")
    assert seen["metadata"]["deletionTimestamp"]
    await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
    answer = await api.http.post(f"{api.pods}/p/eviction", json=body)
    refusal(answer, 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_pods_status_is_reported_at_its_own_door(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    changed = await api.patched(f"{api.pods}/p/status", {"status": {"phase": "Running", "podIP": "10.0.0.9"}})
    assert changed["status"]["phase"] == "Running"
    same = await api.patched(f"{api.pods}/p", {"status": {"phase": "Failed"}})
    assert same["status"]["phase"] == "Running"
    assert same["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_labels_of_a_pod_can_change(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    changed = await api.patched(f"{api.pods}/p", {"metadata": {"labels": {"a": "1"}}})
    assert changed["metadata"]["labels"] == {"a": "1"}
    assert changed["metadata"]["generation"] == 1


async def test_a_node_is_stored_with_what_it_reports(api: Api) -> None:
    name = api.unique("node")
    made = await api.make(
        "/api/v1/nodes", {"metadata": {"name": name, "labels": {"zone": "a"}}, "spec": {"providerID": "x://1"}}
    )
    assert "namespace" not in made["metadata"]
    assert made["spec"]["providerID"] == "x://1"
    condition = {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "2024-01-01T00:00:00Z"}
    changed = await api.patched(
        f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition], "capacity": {"cpu": "8"}}}
    )
    assert changed["status"]["capacity"] == {"cpu": "8"}
    assert changed["status"]["conditions"][0]["type"] == "DiskPressure"
    tainted = await api.patched(
        f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
    )
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in tainted["spec"]["taints"]
    await api.delete(f"/api/v1/nodes/{name}")
    await api.gone(f"/api/v1/nodes/{name}")


async def test_the_provider_id_of_a_node_cannot_change_once_set(api: Api) -> None:
    name = await node(api)
    await api.patched(f"/api/v1/nodes/{name}", {"spec": {"providerID": "x://1"}})
    answer = await api.patch(f"/api/v1/nodes/{name}", {"spec": {"providerID": "x://2"}})
    refusal(answer, 422, "Invalid")
    assert "spec.providerID" in causes(answer)
    await api.delete(f"/api/v1/nodes/{name}")


async def test_a_bound_pod_with_a_finalizer_waits_for_both(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    await api.patched(f"{api.pods}/p", {"metadata": {"finalizers": ["example.com/f"]}})
    await api.delete(f"{api.pods}/p")
    marked = (await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})).json()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["finalizers"] == ["example.com/f"]
    await api.patched(f"{api.pods}/p", {"metadata": {"finalizers": None}})
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_pod_in_its_grace_period_outlives_its_last_finalizer(api: Api) -> None:
    here = await node(api)
    await bound(api, "p", here)
    await api.patched(f"{api.pods}/p", {"metadata": {"finalizers": ["example.com/f"]}})
    await api.delete(f"{api.pods}/p")
    await api.patched(f"{api.pods}/p", {"metadata": {"finalizers": None}})
    seen = await api.see(f"{api.pods}/p")
    assert seen["metadata"]["deletionGracePeriodSeconds"] == 30
    await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
    refusal(await api.http.get(f"{api.pods}/p"), 404, "NotFound")
    await api.delete(f"/api/v1/nodes/{here}")


async def test_a_pod_of_another_uid_is_not_deleted(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    answer = await api.delete(f"{api.pods}/p", {"preconditions": {"uid": "another"}, "gracePeriodSeconds": 0})
    refusal(answer, 409, "Conflict")
    assert await api.see(f"{api.pods}/p")


async def test_an_eviction_of_another_uid_is_refused(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    body = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
    answer = await api.http.post(f"{api.pods}/p/eviction", json={"apiVersion": "policy/v1", "kind": "Eviction", **body})
    refusal(answer, 409, "Conflict")


async def test_a_pod_counts_the_changes_of_its_spec(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    changed = await api.patched(f"{api.pods}/p", {"spec": {"activeDeadlineSeconds": 60}})
    assert changed["metadata"]["generation"] == 2


async def test_conditions_of_a_pod_carry_their_times(api: Api) -> None:
    await ready_to_run(api)
    await api.make(api.pods, pod("p"))
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    changed = await api.patched(f"{api.pods}/p/status", {"status": {"conditions": [condition]}})
    (seen,) = [c for c in changed["status"]["conditions"] if c["type"] == "Ready"]
    assert seen["lastTransitionTime"] == "2024-01-01T00:00:00Z"
    assert seen["status"] == "True"
