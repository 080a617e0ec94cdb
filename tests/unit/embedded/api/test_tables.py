"""Cells as a real API server computes them: the expected rows were read off one."""

from datetime import UTC, datetime

import pytest

from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.documents.tables import include_of, row, table, table_columns
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import ApiFailure
from paddock.kube.resource import Column

NOW = datetime(2026, 6, 12, 7, 0, tzinfo=UTC)
CREATED = "2026-06-12T06:59:34Z"
BY_PLURAL = {kind.plural: kind for kind in KINDS}


def custom(*columns: Column) -> Kind:
    return Kind("tuist.dev", "v1alpha1", "Widget", "widgets", "widget", namespaced=True, custom=True, columns=columns)


def cells(plural, obj):
    return row(BY_PLURAL[plural], obj, NOW)["cells"]


def named(name, **parts):
    return {"metadata": {"name": name, "creationTimestamp": CREATED}, **parts}


def cell(kind, value):
    obj = named("w", spec={} if value is ... else {"v": value})
    return row(custom(Column("V", ".spec.v", kind)), obj, NOW)["cells"][1]


def test_a_custom_kind_without_columns_shows_name_and_age():
    kind = custom()
    assert [c["name"] for c in table_columns(kind)] == ["Name", "Age"]
    assert row(kind, named("w1"), NOW)["cells"] == ["w1", "26s"]


def test_the_name_column_comes_first_and_says_so_in_its_format():
    first, second = table_columns(custom(Column("Zone", ".spec.zone", priority=1)))
    assert (first["name"], first["format"]) == ("Name", "name")
    assert second == {
        "name": "Zone",
        "type": "string",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.zone",
        "priority": 1,
    }


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("integer", 2, 2),
        ("integer", 1.5, 1),
        ("integer", "2", None),
        ("integer", True, None),
        ("integer", ..., None),
        ("integer", None, None),
        ("number", 3, 3),
        ("number", 1.25, 1.25),
        ("number", "1", None),
        ("boolean", True, True),
        ("boolean", "x", None),
        ("string", {"b": 1, "a": "<&>"}, '{"a":"\\u003c\\u0026\\u003e","b":1}'),
        ("string", [1, "b"], '[1,"b"]'),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("string", 100000000.0, "100000000"),
        ("string", 1e21, "1e+21"),
        ("string", 1e30, "1e+30"),
        ("string", ..., None),
        ("string", None, "<no value>"),
        ("date", CREATED, "26s"),
        ("date", "2030-01-01T00:00:00Z", "<invalid>"),
        ("date", "zz", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", ..., None),
        ("date", 5, None),
    ],
)
def test_a_cell_follows_the_declared_type_of_its_column(kind, value, shown):
    found = cell(kind, value)
    assert found == shown
    assert type(found) is type(shown)


def test_only_the_first_of_many_matches_is_shown():
    kind = custom(Column("First", ".spec.list[*].a"), Column("Ready", '.status.conditions[?(@.type=="Ready")].status'))
    obj = named(
        "w", spec={"list": [{"a": "x"}, {"a": "y"}]}, status={"conditions": [{"type": "Ready", "status": "True"}]}
    )
    assert row(kind, obj, NOW)["cells"] == ["w", "x", "True"]


def test_a_column_whose_path_cannot_be_read_is_empty_and_the_list_still_works():
    assert row(custom(Column("Odd", ".a[")), named("w"), NOW)["cells"] == ["w", None]


def test_a_row_carries_the_metadata_the_object_or_nothing():
    obj = named("w1", spec={"zone": "fr-par-1"})
    assert row(custom(), obj, NOW)["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
    assert row(custom(), obj, NOW, "Object")["object"] == obj
    assert row(custom(), obj, NOW, "None")["object"] is None


def test_the_include_parameter_is_one_of_three_or_refused():
    assert include_of(None) == include_of("") == "Metadata"
    assert include_of("Object") == "Object"
    with pytest.raises(ApiFailure) as refusal:
        include_of("Foo")
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    assert "must be 'Metadata', 'Object', 'None', or empty" in refusal.value.message


def test_a_table_repeats_the_metadata_of_its_list():
    made = table(custom(), [named("a"), named("b")], NOW, list_metadata={"resourceVersion": "402", "continue": "x"})
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["metadata"] == {"resourceVersion": "402", "continue": "x"}
    assert [r["cells"][0] for r in made["rows"]] == ["a", "b"]


def test_later_watch_frames_have_no_columns():
    frame = table(custom(), [named("a")], NOW, list_metadata={"resourceVersion": "7"}, with_columns=False)
    assert frame["columnDefinitions"] is None
    assert len(frame["rows"]) == 1


@pytest.mark.parametrize(
    ("plural", "shown", "wide"),
    [
        ("pods", "Name Ready Status Restarts Age", "IP,Node,Nominated Node,Readiness Gates"),
        ("nodes", "Name Status Roles Age Version", "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime"),
        ("secrets", "Name Type Data Age", ""),
        ("configmaps", "Name Data Age", ""),
        ("serviceaccounts", "Name Age", ""),
        ("namespaces", "Name Status Age", ""),
        ("services", "Name Type Cluster-IP External-IP Port(s) Age", "Selector"),
        ("leases", "Name Holder Age", ""),
        ("rolebindings", "Name Role Age", "Users,Groups,ServiceAccounts"),
        ("clusterrolebindings", "Name Role Age", "Users,Groups,ServiceAccounts"),
    ],
)
def test_a_built_in_kind_has_the_columns_kubectl_is_used_to(plural, shown, wide):
    columns = table_columns(BY_PLURAL[plural])
    assert " ".join(c["name"] for c in columns if c["priority"] == 0) == shown
    assert ",".join(c["name"] for c in columns if c["priority"] == 1) == wide


@pytest.mark.parametrize("plural", ["roles", "clusterroles", "customresourcedefinitions"])
def test_kinds_without_columns_of_their_own_show_when_they_were_created(plural):
    assert [c["name"] for c in table_columns(BY_PLURAL[plural])] == ["Name", "Created At"]
    assert cells(plural, named("r1")) == ["r1", CREATED]


def test_every_stored_kind_has_as_many_cells_as_columns():
    for kind in KINDS:
        assert len(row(kind, {"metadata": {}}, NOW)["cells"]) == len(table_columns(kind)), kind.plural


RUNNING = {"running": {"startedAt": CREATED}}
COMPLETED = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def container(state, *, ready=False, restarts=0, last=None, name="a", **more):
    return {"name": name, "state": state, "ready": ready, "restartCount": restarts, "lastState": last or {}, **more}


def pod(status, **spec):
    return named("p", spec={"containers": [{"name": "a"}, {"name": "b"}], **spec}, status=status)


INIT = [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (pod({"phase": "Pending"}), ["0/2", "Pending", "0"]),
        (
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        container(
                            RUNNING,
                            ready=True,
                            restarts=2,
                            last={"terminated": {"exitCode": 1, "finishedAt": "2026-06-12T06:00:00Z"}},
                        ),
                        container(RUNNING, ready=True),
                    ],
                }
            ),
            ["2/2", "Running", "2 (60m ago)"],
        ),
        (
            pod({"phase": "Succeeded", "containerStatuses": [container(COMPLETED), container(COMPLETED)]}),
            ["0/2", "Completed", "0"],
        ),
        (pod({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"]),
        (
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        container({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=3),
                        container(RUNNING, ready=True),
                    ],
                }
            ),
            ["1/2", "CrashLoopBackOff", "3"],
        ),
        (
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        container({"terminated": {"exitCode": 3}}, restarts=1, name="i"),
                        container({"waiting": {"reason": "PodInitializing"}}, name="s"),
                    ],
                },
                initContainers=INIT,
            ),
            ["0/3", "Init:ExitCode:3", "1"],
        ),
        (
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [container({"waiting": {"reason": "PodInitializing"}}, name="i")],
                },
                initContainers=INIT,
            ),
            ["0/3", "Init:0/2", "0"],
        ),
        (
            pod(
                {
                    "phase": "Running",
                    "conditions": [{"type": "Initialized", "status": "True"}],
                    "initContainerStatuses": [
                        container({"terminated": {"exitCode": 0}}, name="i"),
                        container(RUNNING, ready=True, restarts=1, name="s", started=True),
                    ],
                    "containerStatuses": [container(RUNNING, ready=True), container(RUNNING)],
                },
                initContainers=INIT,
            ),
            ["2/3", "Running", "1"],
        ),
        (
            pod(
                {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "containerStatuses": [container(COMPLETED), container(RUNNING, ready=True)],
                }
            ),
            ["1/2", "NotReady", "0"],
        ),
        (
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        container({"terminated": {"exitCode": 137, "signal": 9}}),
                        container(COMPLETED),
                    ],
                }
            ),
            ["0/2", "Signal:9", "0"],
        ),
        (
            {
                **pod({"phase": "Running"}),
                "metadata": {"name": "p", "creationTimestamp": CREATED, "deletionTimestamp": CREATED},
            },
            ["0/2", "Terminating", "0"],
        ),
    ],
)
def test_a_pod_shows_readiness_one_word_and_its_restarts(obj, shown):
    assert cells("pods", obj)[1:4] == shown


def test_a_wide_pod_shows_where_it_runs():
    obj = pod(
        {"phase": "Running", "podIPs": [{"ip": "10.1.1.1"}], "conditions": [{"type": "x/y", "status": "True"}]},
        nodeName="mac-1",
        readinessGates=[{"conditionType": "x/y"}, {"conditionType": "z"}],
    )
    assert cells("pods", obj)[4:] == ["26s", "10.1.1.1", "mac-1", "<none>", "1/2"]
    assert cells("pods", pod({}))[5:] == ["<none>"] * 4


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_an_ended_pod_is_marked_so_that_clients_can_hide_it(phase, reason):
    condition = row(BY_PLURAL["pods"], pod({"phase": phase}), NOW)["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Completed", "True", reason)
    assert "conditions" not in row(BY_PLURAL["pods"], pod({"phase": "Running"}), NOW)


def test_a_node_shows_its_readiness_roles_and_versions():
    node = {
        "metadata": {
            "name": "mac-1",
            "creationTimestamp": CREATED,
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "build"},
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "24", "architecture": "arm64", "osImage": "macOS"},
        },
    }
    assert cells("nodes", node) == [
        "mac-1",
        "Ready,SchedulingDisabled",
        "build,worker",
        "26s",
        "v1",
        "1.2.3.4",
        "<none>",
        "macOS",
        "24 (arm64)",
        "<unknown>",
    ]


@pytest.mark.parametrize(
    ("status", "word"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "NotReady"), (None, "Unknown")]
)
def test_a_node_is_ready_only_when_it_says_so(status, word):
    conditions = [] if status is None else [{"type": "Ready", "status": status}]
    assert cells("nodes", named("n", status={"conditions": conditions}))[1] == word


def test_an_event_shows_what_happened_to_what():
    event = named(
        "e2",
        involvedObject={"kind": "Node", "name": "mac-1"},
        reason="Rebooted",
        message=" gone and back \n",
        type="Normal",
        source={"component": "x", "host": "y"},
        firstTimestamp="2026-06-12T06:40:00Z",
        lastTimestamp="2026-06-12T06:50:32Z",
        count=3,
    )
    assert cells("events", event) == [
        "9m28s",
        "Normal",
        "Rebooted",
        "node/mac-1",
        "",
        "x, y",
        "gone and back",
        "20m",
        3,
        "e2",
    ]


def test_an_event_without_times_is_of_unknown_age_and_happened_once():
    shown = cells("events", named("e1", involvedObject={"kind": "Pod", "name": "p1"}, reportingComponent="ctl"))
    assert (shown[0], shown[5], shown[7], shown[8]) == ("<unknown>", "ctl", "<unknown>", 1)


def test_an_event_series_shows_its_own_count_and_time():
    series = {"count": 7, "lastObservedTime": "2026-06-12T06:59:50.000000Z"}
    shown = cells(
        "events", named("e", involvedObject={"kind": "Pod"}, eventTime="2026-06-12T06:00:00.000000Z", series=series)
    )
    assert (shown[0], shown[3], shown[7], shown[8]) == ("10s", "pod", "60m", 7)


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        (
            {
                "type": "ClusterIP",
                "clusterIPs": ["10.0.0.1"],
                "ports": [{"port": 80, "protocol": "TCP"}],
                "selector": {"a": "b"},
            },
            ["ClusterIP", "10.0.0.1", "<none>", "80/TCP", "26s", "a=b"],
        ),
        (
            {"type": "NodePort", "ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}]},
            ["NodePort", "<none>", "<none>", "53:30053/UDP", "26s", "<none>"],
        ),
        (
            {"type": "LoadBalancer", "clusterIPs": ["10.0.0.2"]},
            ["LoadBalancer", "10.0.0.2", "<pending>", "<none>", "26s", "<none>"],
        ),
        (
            {"type": "ExternalName", "externalName": "a.b"},
            ["ExternalName", "<none>", "a.b", "<none>", "26s", "<none>"],
        ),
    ],
)
def test_a_service_shows_how_it_is_reached(spec, shown):
    assert cells("services", named("s", spec=spec))[1:] == shown


def test_secrets_and_config_maps_show_how_many_entries_they_have():
    assert cells("secrets", named("s", type="Opaque", data={"a": "", "b": ""})) == ["s", "Opaque", 2, "26s"]
    assert cells("configmaps", named("c", data={"a": ""}, binaryData={"b": ""})) == ["c", 2, "26s"]


def test_a_lease_shows_its_holder_and_a_binding_whom_it_binds():
    assert cells("leases", named("l", spec={"holderIdentity": "me"})) == ["l", "me", "26s"]
    subjects = [
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
    ]
    binding = named("b", roleRef={"kind": "Role", "name": "r"}, subjects=subjects)
    assert cells("rolebindings", binding) == ["b", "Role/r", "26s", "u", "g", "n/s"]
