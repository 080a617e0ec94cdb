"""Defaults and refusals of the built-in kinds: the expected words and values were read off a real API server."""

import copy
from datetime import UTC, datetime

import pytest

from paddock.embedded.api.builtin.catalogue import (
    KINDS,
    REVIEW_KINDS,
    STORED_KINDS,
    UPDATES_NEED_VERSION,
    prepare_create,
    prepare_update,
    validate_builtin,
)
from paddock.embedded.api.status import ApiFailure

NOW = datetime(2026, 6, 12, 7, 0, tzinfo=UTC)
BY_KIND = {kind.kind: kind for kind in KINDS}


def create(kind, body, name="q"):
    of = BY_KIND[kind]
    meta = {"name": name, **({"namespace": "default"} if of.namespaced else {}), **body.get("metadata", {})}
    return prepare_create(of, {"apiVersion": of.api_version, "kind": kind, **body, "metadata": meta}, NOW)


def causes(kind, obj):
    return [(cause.field, cause.message) for cause in validate_builtin(BY_KIND[kind], obj)]


def wrong(kind, body):
    return causes(kind, create(kind, body))


def refused(kind, body):
    with pytest.raises(ApiFailure) as refusal:
        create(kind, body)
    return refusal.value.code, refusal.value.message


def change(kind, old, mutate, subresource=""):
    new = copy.deepcopy(old)
    mutate(new)
    return prepare_update(BY_KIND[kind], old, new, subresource)


def change_refused(kind, old, mutate, subresource=""):
    with pytest.raises(ApiFailure) as refusal:
        change(kind, old, mutate, subresource)
    assert refusal.value.code == 422
    return [(cause["field"], cause["message"]) for cause in refusal.value.details["causes"]]


def pod(**spec):
    return {"spec": {"containers": [{"name": "a", "image": "x:1"}], **spec}}


# What is served


def test_status_generation_and_scope_are_those_of_the_real_server():
    assert {k.plural for k in STORED_KINDS if k.status} == {
        "pods",
        "nodes",
        "namespaces",
        "services",
        "customresourcedefinitions",
        "certificatesigningrequests",
    }
    assert {k.plural for k in STORED_KINDS if k.generation} == {"pods", "customresourcedefinitions"}
    assert {k.plural for k in STORED_KINDS if not k.namespaced} == {
        "namespaces",
        "nodes",
        "clusterroles",
        "clusterrolebindings",
        "customresourcedefinitions",
        "certificatesigningrequests",
    }


def test_reviews_can_only_be_created():
    assert {kind.verbs for kind in REVIEW_KINDS} == {("create",)}
    assert {kind.plural for kind in REVIEW_KINDS} == {
        "tokenreviews",
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "localsubjectaccessreviews",
        "subjectaccessreviews",
    }


def test_leases_and_definitions_are_replaced_only_under_their_version():
    known = {kind.resource for kind in STORED_KINDS}
    assert known >= UPDATES_NEED_VERSION
    assert {resource.partition(".")[0] for resource in UPDATES_NEED_VERSION} == {"leases", "customresourcedefinitions"}


@pytest.mark.parametrize("kind", [kind.kind for kind in STORED_KINDS])
def test_preparing_never_changes_what_the_caller_gave(kind):
    body = {"metadata": {"name": "q", "namespace": "default"}, **(pod() if kind == "Pod" else {})}
    before = copy.deepcopy(body)
    prepare_create(BY_KIND[kind], body, NOW)
    assert body == before


@pytest.mark.parametrize("kind", [kind.kind for kind in STORED_KINDS])
def test_an_update_that_changes_nothing_changes_nothing(kind):
    stored = create(kind, pod() if kind == "Pod" else {})
    assert change(kind, stored, lambda _: None) == stored


# Namespaces


def test_a_new_namespace_is_labelled_guarded_and_active():
    assert create("Namespace", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Terminating"}}, "team") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"a": "b", "kubernetes.io/metadata.name": "team"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def test_a_namespace_loses_its_finalizers_through_finalize_only():
    stored = create("Namespace", {})

    def emptied(namespace):
        namespace["spec"] = {"finalizers": []}

    assert change("Namespace", stored, emptied)["spec"] == {"finalizers": ["kubernetes"]}
    assert change("Namespace", stored, emptied, "finalize")["spec"] == {"finalizers": []}


# Secrets and config maps


def test_the_plain_text_of_a_secret_becomes_data_and_wins():
    secret = create("Secret", {"data": {"a": "YQ==", "n": None}, "stringData": {"a": "x", "b": "é"}})
    assert secret["type"] == "Opaque"
    assert secret["data"] == {"a": "eA==", "n": "", "b": "w6k="}
    assert "stringData" not in secret


@pytest.mark.parametrize(
    ("value", "at"), [("not base64", 3), ("!!", 0), ("YQ", 0), ("YWJjZ", 4), ("YQ=a", 2), ("Y===", 1)]
)
def test_data_that_is_not_base64_is_a_bad_request(value, at):
    code, message = refused("Secret", {"data": {"a": value}})
    assert code == 400
    assert message.startswith(
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte '
    )
    assert value not in message
    if value not in ("YQ=a", "Y==="):
        assert message.endswith(f" {at}")


def test_line_breaks_in_base64_are_ignored_and_not_kept():
    assert create("Secret", {"data": {"a": "YQ=\n=\n"}})["data"] == {"a": "YQ=="}


def test_typed_secrets_need_their_keys():
    assert wrong("Secret", {"type": "kubernetes.io/tls"}) == [
        ("data[tls.crt]", "Required value"),
        ("data[tls.key]", "Required value"),
    ]
    assert wrong("Secret", {"type": "kubernetes.io/basic-auth", "stringData": {"username": ""}}) == []
    bad = wrong("Secret", {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "hunter2"}})
    assert bad[0][0] == "data[.dockerconfigjson]"
    assert "hunter2" not in bad[0][1]


def test_keys_must_be_able_to_become_file_names():
    bad = wrong("ConfigMap", {"data": {"a": "b", "..": "x", "q q": "x"}, "binaryData": {"a": "YQ=="}})
    assert [field for field, _ in bad] == ["data[..]", "data[a]", "data[q q]"]
    assert bad[0][1] == "Invalid value: \"..\": must not be '..'"
    assert bad[1][1] == 'Invalid value: "a": duplicate of key present in binaryData'


def test_too_much_data_is_refused():
    assert wrong("Secret", {"stringData": {"a": "x" * 1_100_000}}) == [
        ("data", "Too long: may not be more than 1048576 bytes")
    ]


def test_what_is_immutable_stays_as_it_is():
    stored = create("Secret", {"immutable": True, "data": {"a": "YQ=="}})

    def thawed(secret):
        secret["immutable"] = False
        secret["data"]["a"] = "Yg=="

    said = "Forbidden: field is immutable when `immutable` is set"
    assert change_refused("Secret", stored, thawed) == [("immutable", said), ("data", said)]
    assert change("Secret", stored, lambda s: s["metadata"].update(labels={"a": "b"}))["metadata"]["labels"] == {
        "a": "b"
    }


def test_a_secret_keeps_its_type():
    stored = create("Secret", {})
    assert change_refused("Secret", stored, lambda s: s.update(type="x")) == [
        ("type", 'Invalid value: "x": field is immutable')
    ]


# Pods


def test_a_new_pod_has_the_defaults_of_the_real_server():
    made = create("Pod", {**pod(), "status": {"phase": "Running"}})
    assert made["spec"] == {
        "containers": [
            {
                "name": "a",
                "image": "x:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert causes("Pod", made) == []


def test_what_a_pod_says_itself_is_kept():
    made = create("Pod", pod(restartPolicy="Never", terminationGracePeriodSeconds=0, serviceAccountName="robot"))
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["terminationGracePeriodSeconds"] == 0
    assert made["spec"]["serviceAccount"] == "robot"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("localhost:5000/x", "Always"),
        ("localhost:5000/x:1", "IfNotPresent"),
        ("x@sha256:abcd", "IfNotPresent"),
    ],
)
def test_only_images_that_move_are_always_fetched(image, policy):
    made = create("Pod", {"spec": {"containers": [{"name": "a", "image": image}]}})
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"tuist.dev/vm": "1"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_follows_from_requests_and_limits(resources, quality):
    made = create("Pod", {"spec": {"containers": [{"name": "a", "image": "x", "resources": resources}]}})
    assert made["status"]["qosClass"] == quality


def test_limits_stand_in_for_requests_that_are_not_given():
    made = create("Pod", {"spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "2"}}}]}})
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_a_pod_that_tolerates_everything_gets_no_further_tolerations():
    made = create("Pod", pod(tolerations=[{"operator": "Exists"}]))
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_probes_volumes_and_ports_are_completed():
    made = create(
        "Pod",
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": "x",
                        "ports": [{"containerPort": 80}],
                        "readinessProbe": {"httpGet": {"port": 80}},
                        "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    }
                ],
                "volumes": [{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}],
            }
        },
    )
    container = made["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["readinessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert made["spec"]["volumes"] == [
        {"name": "e", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
    ]


def test_everything_wrong_with_a_pod_is_said_at_once():
    bad = wrong(
        "Pod",
        {
            "spec": {
                "containers": [
                    {"image": "x"},
                    {"name": "A_"},
                    {"name": "x", "image": "y"},
                    {"name": "x", "image": "y", "imagePullPolicy": "Foo"},
                ],
                "restartPolicy": "Bad",
                "dnsPolicy": "Bad",
            }
        },
    )
    assert [field for field, _ in bad] == [
        "spec.containers[0].name",
        "spec.containers[1].name",
        "spec.containers[1].image",
        "spec.containers[3].imagePullPolicy",
        "spec.containers[3].name",
        "spec.restartPolicy",
        "spec.dnsPolicy",
    ]
    assert dict(bad)["spec.containers[0].name"] == "Required value"
    assert dict(bad)["spec.containers[3].name"] == 'Duplicate value: "x"'
    assert dict(bad)["spec.restartPolicy"] == (
        'Unsupported value: "Bad": supported values: "Always", "OnFailure", "Never"'
    )


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": None}])
def test_a_pod_needs_a_container(spec):
    assert wrong("Pod", {"spec": spec}) == [("spec.containers", "Required value")]
    assert wrong("Pod", {}) == [("spec.containers", "Required value")]


def test_mounts_ports_tolerations_and_resources_are_checked():
    bad = wrong(
        "Pod",
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": "x",
                        "volumeMounts": [{"name": "no", "mountPath": "/x"}],
                        "ports": [{"containerPort": 0}],
                        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
                    }
                ],
                "tolerations": [{"effect": "Bad"}],
                "activeDeadlineSeconds": 0,
            }
        },
    )
    assert bad == [
        ("spec.containers[0].ports[0].containerPort", "Required value"),
        ("spec.containers[0].volumeMounts[0].name", 'Not found: "no"'),
        ("spec.containers[0].resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1'),
        ("spec.activeDeadlineSeconds", "Invalid value: 0: must be between 1 and 2147483647, inclusive"),
        (
            "spec.tolerations[0].operator",
            'Invalid value: "": operator must be Exists when `key` is empty, which means "match all values and all keys"',
        ),
        (
            "spec.tolerations[0].effect",
            'Unsupported value: "Bad": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
    ]


def test_a_value_of_the_wrong_type_is_a_bad_request_that_names_the_field():
    code, message = refused("Pod", {"spec": {"containers": "x"}})
    assert code == 400
    assert message == (
        'Pod in version "v1" cannot be handled as a Pod: '
        "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"
    )
    assert "Container.spec.containers.name of type string" in refused("Pod", {"spec": {"containers": [{"name": 5}]}})[1]
    assert refused("ConfigMap", {"data": {"a": 1}})[1].endswith(
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )
    assert refused("Node", {"spec": []})[0] == 400
    assert refused("Secret", {"metadata": {"labels": {"a": 1}}})[1].endswith(
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    )


def test_an_amount_that_cannot_be_read_is_a_bad_request():
    code, message = refused(
        "Pod", {"spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "abc"}}}]}}
    )
    assert code == 400
    assert "quantities must match the regular expression" in message


def test_priorities_come_from_known_classes_only():
    assert create("Pod", pod(priorityClassName="system-node-critical"))["spec"]["priority"] == 2000001000
    assert refused("Pod", pod(priorityClassName="zz")) == (
        403,
        'pods "q" is forbidden: no PriorityClass with name zz was found',
    )
    assert refused("Pod", pod(priority=5))[0] == 403


@pytest.mark.parametrize(
    "mutate",
    [
        lambda p: p["spec"]["containers"][0].update(image="y:2"),
        lambda p: p["spec"]["tolerations"].append({"key": "z", "operator": "Exists"}),
        lambda p: p["spec"]["tolerations"][0].update(tolerationSeconds=5),
        lambda p: p["spec"].update(tolerations=[]),
        lambda p: p["spec"].update(activeDeadlineSeconds=100),
        lambda p: p["metadata"].update(labels={"a": "b"}),
    ],
)
def test_images_deadlines_and_further_tolerations_of_a_pod_may_change(mutate):
    stored = create("Pod", pod())
    assert len(change("Pod", stored, mutate)["spec"]["tolerations"]) >= 2


@pytest.mark.parametrize(
    ("mutate", "field"),
    [
        (lambda p: p["spec"].update(nodeName="mac-1"), "spec"),
        (lambda p: p["spec"]["containers"][0].update(command=["x"]), "spec"),
        (lambda p: p["spec"]["containers"].append({"name": "b", "image": "x"}), "spec.containers"),
        (lambda p: p["spec"].update(tolerations=p["spec"]["tolerations"][1:]), "spec.tolerations"),
        (lambda p: p["spec"].update(activeDeadlineSeconds=200), "spec.activeDeadlineSeconds"),
        (lambda p: p["spec"].pop("activeDeadlineSeconds"), "spec.activeDeadlineSeconds"),
    ],
)
def test_nothing_else_of_a_pod_may_change(mutate, field):
    tolerations = [{"key": "k", "operator": "Exists"}]
    stored = create("Pod", pod(activeDeadlineSeconds=100, tolerations=tolerations))
    assert [f for f, _ in change_refused("Pod", stored, mutate)] == [field]


def test_the_refusal_of_a_change_names_what_would_change():
    ((_, message),) = change_refused("Pod", create("Pod", pod()), lambda p: p["spec"].update(nodeName="mac-1"))
    assert message.startswith("Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    assert message.endswith("spec.nodeName would change")


def test_a_pod_gets_its_node_through_binding():
    stored = create("Pod", pod())
    assert change("Pod", stored, lambda p: p["spec"].update(nodeName="mac-1"), "binding")["spec"]["nodeName"] == "mac-1"


# Nodes, services, leases, events


def test_a_node_registers_with_what_it_has():
    node = create("Node", {"status": {"capacity": {"cpu": "8"}, "nodeInfo": {"architecture": "arm64"}}}, "mac-1")
    assert node["status"]["allocatable"] == {"cpu": "8"}
    assert node["status"]["nodeInfo"]["architecture"] == "arm64"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert node["spec"] == {}


def test_the_taints_of_a_node_are_checked():
    taints = [{"key": "k", "effect": "No"}, {"effect": "NoSchedule"}, *[{"key": "d", "effect": "NoExecute"}] * 2]
    bad = wrong("Node", {"spec": {"taints": taints}})
    assert [field for field, _ in bad] == ["metadata.taints[0].effect", "metadata.taints[1].key", "metadata.taints[3]"]
    assert bad[2][1].endswith(": taints must be unique by key and effect pair")


def test_the_machine_behind_a_node_cannot_be_exchanged():
    stored = create("Node", {"spec": {"providerID": "scaleway://a"}})
    assert change_refused("Node", stored, lambda n: n["spec"].update(providerID="scaleway://b")) == [
        ("spec.providerID", 'Forbidden: node updates may not change providerID except from "" to valid')
    ]
    fresh = create("Node", {})
    assert change("Node", fresh, lambda n: n["spec"].update(providerID="scaleway://b"))["spec"]["providerID"]


def test_a_service_is_completed_without_an_address():
    spec = create("Service", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["type"] == "ClusterIP"
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "clusterIP" not in spec
    assert create("Service", {"spec": {"clusterIP": "None"}})["spec"]["clusterIPs"] == ["None"]


def test_a_lease_needs_sensible_numbers_and_microseconds():
    assert create("Lease", {})["spec"] == {}
    assert wrong("Lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}) == [
        ("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
        ("spec.leaseTransitions", "Invalid value: -1: must be greater than or equal to 0"),
    ]
    assert wrong("Lease", {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}) == []
    assert refused("Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}) == (
        400,
        (
            'Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-01T00:00:00Z" as '
            '"2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
        ),
    )


def test_an_event_lives_where_its_object_lives():
    assert wrong("Event", {"involvedObject": {"kind": "Node", "name": "n"}}) == []
    assert wrong("Event", {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}}) == [
        ("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')
    ]


# Rights


def test_roles_must_say_what_may_be_done_to_what():
    rules = [{"apiGroups": [""], "resources": ["pods"]}, {"verbs": ["get"]}]
    assert wrong("Role", {"rules": rules}) == [
        ("rules[0].verbs", "Required value: verbs must contain at least one value"),
        ("rules[1].apiGroups", "Required value: resource rules must supply at least one api group"),
        ("rules[1].resources", "Required value: resource rules must supply at least one resource"),
    ]
    paths = [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]
    assert [f for f, _ in wrong("Role", {"rules": paths})] == ["rules[0].nonResourceURLs"]
    assert wrong("ClusterRole", {"rules": paths}) == []


def test_bindings_are_completed_and_checked():
    made = create(
        "RoleBinding", {"subjects": [{"kind": "User", "name": "u"}], "roleRef": {"kind": "Role", "name": "r"}}
    )
    assert made["roleRef"]["apiGroup"] == made["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert causes("RoleBinding", made) == []
    assert wrong("RoleBinding", {"subjects": [{"kind": "U"}], "roleRef": {"kind": "X"}}) == [
        ("roleRef.kind", 'Unsupported value: "X": supported values: "Role", "ClusterRole"'),
        ("roleRef.name", "Required value"),
        ("subjects[0].name", "Required value"),
        ("subjects[0].kind", 'Unsupported value: "U": supported values: "ServiceAccount", "User", "Group"'),
    ]
    account = {"subjects": [{"kind": "ServiceAccount", "name": "x"}], "roleRef": {"kind": "ClusterRole", "name": "r"}}
    assert wrong("ClusterRoleBinding", account) == [("subjects[0].namespace", "Required value")]


def test_a_binding_keeps_its_role():
    stored = create("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}})
    ((field, message),) = change_refused("RoleBinding", stored, lambda b: b["roleRef"].update(name="admin"))
    assert (field, message.endswith(": cannot change roleRef")) == ("roleRef", True)


# Definitions


def definition(**version):
    versions = [
        {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            **version,
        }
    ]
    return {
        "metadata": {"name": "widgets.ex.dev"},
        "spec": {
            "group": "ex.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": versions,
        },
    }


def test_a_new_definition_is_established_at_once():
    crd = create("CustomResourceDefinition", definition())
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert [(c["type"], c["status"], c["reason"]) for c in crd["status"]["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert crd["status"]["storedVersions"] == ["v1alpha1"]
    assert causes("CustomResourceDefinition", crd) == []


def test_an_empty_definition_lacks_everything():
    bad = wrong("CustomResourceDefinition", {"metadata": {"name": "x"}, "spec": {}})
    assert [field for field, _ in bad] == [
        "metadata.name",
        "spec.group",
        "spec.scope",
        "spec.versions",
        "spec.names.plural",
        "spec.names.singular",
        "spec.names.kind",
        "spec.names.listKind",
    ]
    assert dict(bad)["spec.versions"] == "Invalid value: null: must have exactly one version marked as storage version"


def test_a_column_must_be_a_path_with_a_known_type():
    bad = wrong(
        "CustomResourceDefinition",
        definition(additionalPrinterColumns=[{"name": "x", "type": "bad", "jsonPath": "x"}, {"type": "string"}]),
    )
    assert [message for _, message in bad] == [
        'Invalid value: "bad": must be one of boolean,date,integer,number,string',
        'Invalid value: "x": must be a simple json path starting with .',
        "Required value",
        "Required value",
    ]


def test_what_identifies_a_kind_cannot_change():
    stored = create("CustomResourceDefinition", definition())

    def moved(crd):
        crd["spec"]["scope"] = "Cluster"
        crd["spec"]["names"]["kind"] = "Gadget"

    assert change_refused("CustomResourceDefinition", stored, moved) == [
        ("spec.scope", 'Invalid value: "Cluster": field is immutable'),
        ("spec.names.kind", 'Invalid value: "Gadget": field is immutable'),
    ]


def test_a_new_storage_version_joins_the_stored_ones_and_the_old_one_must_stay():
    stored = create("CustomResourceDefinition", definition())

    def promoted(crd):
        old = crd["spec"]["versions"][0]
        crd["spec"]["versions"] = [{**old, "storage": False}, {**old, "name": "v1"}]

    assert change("CustomResourceDefinition", stored, promoted)["status"]["storedVersions"] == ["v1alpha1", "v1"]
    ((field, message),) = change_refused(
        "CustomResourceDefinition", stored, lambda crd: crd["spec"]["versions"][0].update(name="v1")
    )
    assert field == "status.storedVersions[0]"
    assert "must remain in spec.versions" in message
