"""The Pods that are asked for: who has the token, where they may run, and what is refused."""

import json

import pytest
from unit.runners.pools.built import IMAGE, SETTINGS, pool

from paddock.base.rng import seeded
from paddock.runners.api import AUDIENCE
from paddock.runners.pools.pod_names import POOL_UID, REVISION, golden_label, runner_name
from paddock.runners.pools.pod_template import pod_of, service_account_of, shape_problem
from paddock.runners.pools.settings import PoolSettings

LINUX = {"os": "linux", "runtime_class": "kata-qemu", "pod_cpu_milli": 4000, "pod_memory_mb": 8192}


def _env(container) -> dict[str, object]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_a_name_is_the_pools_and_eight_hex_digits() -> None:
    name = runner_name("mac", seeded(1))
    assert name.startswith("mac-runner-")
    assert len(name.rpartition("-")[2]) == 8
    assert int(name.rpartition("-")[2], 16) >= 0


def test_on_linux_only_the_poller_has_a_token() -> None:
    made = pod_of(pool(docker=True, **LINUX), "p", SETTINGS)
    spec = made["spec"]
    having = [
        container["name"]
        for container in (*spec["initContainers"], *spec["containers"])
        if any(mount["name"] == "tuist-runner-token" for mount in container["volumeMounts"])
    ]
    assert having == ["poller"]
    assert spec["automountServiceAccountToken"] is False
    (token,) = [volume for volume in spec["volumes"] if volume["name"] == "tuist-runner-token"]
    (source,) = token["projected"]["sources"]
    assert source == {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 600, "path": "token"}}
    assert token["projected"]["defaultMode"] == 0o400


def test_the_runner_on_linux_can_read_its_job_and_not_write_it() -> None:
    (runner,) = pod_of(pool(**LINUX), "p", SETTINGS)["spec"]["containers"]
    assert {"name": "tuist-runner-jit", "mountPath": "/var/run/paddock/jit", "readOnly": True} in runner["volumeMounts"]


@pytest.mark.parametrize("container", ["poller", "runner"])
def test_no_container_with_a_strangers_code_or_a_token_can_gain_rights(container) -> None:
    spec = pod_of(pool(docker=True, **LINUX), "p", SETTINGS)["spec"]
    (found,) = [each for each in (*spec["initContainers"], *spec["containers"]) if each["name"] == container]
    context = found["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_poller_is_nobody_and_still_owns_its_token() -> None:
    """A projected token of mode 0400 is root's, unless the Pod has an `fsGroup`: then its group may read it."""
    spec = pod_of(pool(**LINUX), "p", SETTINGS)["spec"]
    context = spec["initContainers"][0]["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["readOnlyRootFilesystem"] is True
    assert context["runAsGroup"] == spec["securityContext"]["fsGroup"]


def test_the_stock_runners_user_may_talk_to_the_docker_daemon() -> None:
    (daemon, _) = pod_of(pool(docker=True, **LINUX), "p", SETTINGS)["spec"]["initContainers"]
    assert "--group=123" in daemon["command"][-1]


def test_a_linux_pod_goes_to_its_fleet_and_nowhere_else() -> None:
    spec = pod_of(pool(**LINUX), "p", SETTINGS)["spec"]
    assert spec["nodeSelector"] == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.cluster.x-k8s.io/pool": "fleet",
    }
    tier = {"key": "tuist.dev/runner-tier", "operator": "Equal", "value": "bare-metal", "effect": "NoSchedule"}
    assert spec["tolerations"][0] == tier
    assert spec["runtimeClassName"] == "kata-qemu"
    assert spec["restartPolicy"] == "Never"


def test_the_docker_daemon_is_up_before_the_poller_asks() -> None:
    spec = pod_of(pool(docker=True, **LINUX), "p", SETTINGS)["spec"]
    daemon, poller = spec["initContainers"]
    assert (daemon["name"], poller["name"]) == ("dind", "poller")
    assert daemon["restartPolicy"] == "Always"
    assert daemon["securityContext"] == {"privileged": True}
    assert daemon["startupProbe"]["periodSeconds"] == 2
    assert daemon["startupProbe"]["failureThreshold"] == 60
    assert "dind" not in json.dumps(pod_of(pool(**LINUX), "p", SETTINGS))


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"os": "linux", "docker": True}, "runtimeClass"),
        ({"os": "linux", "docker": True, "runtime_class": "runc"}, "runc is none that counts"),
        ({"os": "linux", "docker": True, "runtime_class": "gvisor"}, "--vm-runtime-class"),
        ({"os": "darwin", "docker": True}, "spec.os"),
        ({"name": "x" * 64}, "shorter"),
        ({"runner_group": "macs", "runner_scope": "repository"}, "only organisations have runner groups"),
    ],
)
def test_what_cannot_be_made_safely_is_refused_with_a_remedy(spec, remedy) -> None:
    problem = shape_problem(pool(**spec), SETTINGS)
    assert problem is not None
    assert remedy in problem


def test_a_runtime_class_that_is_said_to_be_a_vm_is_one() -> None:
    named = PoolSettings(
        dispatch_url="http://d.example", poller_image="p", vm_runtime_classes=frozenset({"firecracker"})
    )
    assert shape_problem(pool(os="linux", docker=True, runtime_class="firecracker"), named) is None
    assert shape_problem(pool(os="linux", docker=True, runtime_class="kata-qemu"), named) is not None


@pytest.mark.parametrize("container", ["runc", "crun", ""])
def test_a_container_on_the_nodes_kernel_never_counts_as_a_vm(container: str) -> None:
    with pytest.raises(ValueError, match="no VM"):
        PoolSettings(dispatch_url="http://d.example", vm_runtime_classes=frozenset({container, "kata"}))


def test_the_docker_daemon_can_be_pinned_by_digest() -> None:
    pinned = PoolSettings(dispatch_url="http://d.example", poller_image="p", docker_image="docker@sha256:abc")
    daemon = pod_of(pool(docker=True, **LINUX), "p", pinned)["spec"]["initContainers"][0]
    assert daemon["image"] == "docker@sha256:abc"


def test_a_linux_pool_without_a_poller_image_is_refused() -> None:
    problem = shape_problem(pool(**LINUX), PoolSettings(dispatch_url="http://d.example"))
    assert problem is not None
    assert "poller_image" in problem


def test_a_mac_pod_is_one_vm_with_a_token_for_dispatch() -> None:
    made = pod_of(pool(), "p", SETTINGS)
    spec = made["spec"]
    (runner,) = spec["containers"]
    assert "initContainers" not in spec
    assert runner["image"] == IMAGE
    assert runner["volumeMounts"] == [
        {"name": "tuist-runner-token", "mountPath": "/var/run/secrets/paddock", "readOnly": True}
    ]
    assert spec["nodeSelector"] == {
        "kubernetes.io/os": "darwin",
        "tuist.dev/runtime": "tart",
        "tuist.dev/fleet": "fleet",
    }
    assert spec["tolerations"][0] == {"key": "tuist.dev/macos", "operator": "Exists", "effect": "NoSchedule"}
    (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"] == [{"key": golden_label(IMAGE), "operator": "Exists"}]


@pytest.mark.parametrize(("os", "seat"), [("linux", {}), ("darwin", {"tuist.dev/vm": "1"})])
def test_requests_are_limits_and_a_mac_pod_asks_for_one_vm_seat(os, seat) -> None:
    """Apple's licence allows two VMs on a Mac: the agent offers two seats, and each VM asks for one."""
    (runner,) = pod_of(pool(os=os, pod_cpu_milli=1500, pod_memory_mb=2048), "p", SETTINGS)["spec"]["containers"]
    wanted = {"cpu": "1500m", "memory": "2048Mi", **seat}
    assert runner["resources"]["requests"] == runner["resources"]["limits"] == wanted


def test_the_environment_says_where_and_who() -> None:
    (runner,) = pod_of(pool(), "p", SETTINGS)["spec"]["containers"]
    env = _env(runner)
    assert env["TUIST_RUNNER_DISPATCH_URL"] == "http://dispatch.example"
    assert env["TUIST_RUNNER_POOL"] == "mac"
    assert env["TUIST_RUNNER_POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert env["TUIST_RUNNER_POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert env["ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT"] == "1"
    assert env["PADDOCK_GITHUB_URL"] == "https://github.com", "what a VM must reach before it takes a job"


def test_an_idle_timeout_is_accepted_and_changes_nothing() -> None:
    for os in ("darwin", "linux"):
        assert pod_of(pool(os=os, idle_timeout_seconds=60), "p", SETTINGS) == pod_of(pool(os=os), "p", SETTINGS)


def test_macs_may_have_another_way_to_dispatch() -> None:
    settings = PoolSettings(dispatch_url="http://inside", macos_dispatch_url="https://outside", poller_image="p")
    (mac,) = pod_of(pool(), "p", settings)["spec"]["containers"]
    (linux,) = pod_of(pool(**LINUX), "p", settings)["spec"]["containers"]
    assert _env(mac)["TUIST_RUNNER_DISPATCH_URL"] == "https://outside"
    assert _env(linux)["TUIST_RUNNER_DISPATCH_URL"] == "http://inside"


@pytest.mark.parametrize("system", [{}, LINUX])
def test_a_pod_at_work_outlives_the_silence_of_its_node(system) -> None:
    """Kubernetes adds a toleration of five minutes for these taints, unless the Pod has one of its own, without an end."""
    spec = pod_of(pool(**system), "p", SETTINGS)["spec"]
    silent = [each for each in spec["tolerations"] if each["effect"] == "NoExecute"]
    assert {each["key"] for each in silent} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert all(each["operator"] == "Exists" and "tolerationSeconds" not in each for each in silent)


def test_a_pod_keeps_off_suspect_nodes() -> None:
    spec = pod_of(pool(**LINUX), "p", SETTINGS, avoid=("bad",))["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}]}


def test_pod_and_account_carry_the_pool_and_its_revision() -> None:
    made = pod_of(pool(annotations={REVISION: "r2"}), "p", SETTINGS)
    account = service_account_of(pool(), "p")
    assert made["metadata"]["annotations"][REVISION] == "r2"
    assert made["spec"]["serviceAccountName"] == account["metadata"]["name"]
    for each in (made, account):
        assert each["metadata"]["labels"]["tuist.dev/runner-pool"] == "mac"
    assert account["metadata"]["ownerReferences"][0]["uid"] == "uid-mac"
    assert made["metadata"]["annotations"][POOL_UID] == "uid-mac"
    assert "ownerReferences" not in made["metadata"], "garbage collection must have no reason to delete a Pod at work"
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"dispatch_url": ""}, "dispatch_url"), ({"dispatch_url": "x", "token_seconds": 60}, "token_seconds")],
)
def test_settings_that_could_not_work_are_refused(settings, field) -> None:
    with pytest.raises(ValueError, match=field):
        PoolSettings(**settings)
