"""A runner Pod on Linux: the poller has the token, the runner has the job, and neither has both.

The token speaks for the pool and could claim other people's jobs; the job is a stranger's code. So the token is mounted
in the poller alone, which ends before the runner starts, and all that passes from one to the other is the configuration
of one job, through memory.

The poller is `paddock poll` in our image; the runner is the stock `actions-runner` image, unchanged. A Pod that is told to
go gets no configuration: its runner container ends with 0 before it starts anything, so the Pod succeeds and is replaced.
"""

from typing import Any, Final

from paddock.runners.api import LINUX_POOL_LABEL, POLLER, RUNNER, RunnerPool
from paddock.runners.pools.settings import PoolSettings

__all__ = ["JIT_FILE", "linux_spec"]

Json = dict[str, Any]
JIT_FILE: Final = "/var/run/paddock/jit/config"
_JIT: Final = "/var/run/paddock/jit"
_DOCKER: Final = "/var/run/paddock/docker"
_WORK: Final = "/home/runner/work"
_TOKEN: Final = "/var/run/secrets/paddock"  # noqa: S105 - a folder
_NOBODY: Final = 65532
"""The poller's user and group, as in our image. As the Pod's `fsGroup` it also owns the token, which no other container mounts."""
_RUNNERS_DOCKER_GROUP: Final = 123
"""The group `docker` of the stock runner image, whose user must reach the daemon's socket."""
_CONFINED: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_START: Final = f"""\
if [ ! -s {JIT_FILE} ]; then
    echo "paddock: this Pod was told to go before it had a job; nothing is run"
    exit 0
fi
ACTIONS_RUNNER_INPUT_JITCONFIG="$(cat {JIT_FILE})" || exit 1
export ACTIONS_RUNNER_INPUT_JITCONFIG
exec /home/runner/run.sh
"""
"""Starts the stock runner for one job. The configuration is a credential: in the environment, which the runner clears
before the job starts, and never in the arguments, which everybody on the Node can read."""


def linux_spec(pool: RunnerPool, settings: PoolSettings, env: list[Json], resources: Json, token: Json) -> Json:
    """The Pod's spec without what both systems share. `token` is the projected volume."""
    docker = pool.spec.docker
    jit = {"name": "TUIST_RUNNER_JIT_FILE", "value": JIT_FILE}
    poller = {
        "name": POLLER,
        "image": settings.poller_image,
        "command": ["paddock", "poll"],
        "args": [
            f"--url={settings.url_for(pool.spec.os)}",
            f"--token-file={_TOKEN}/token",
            f"--jit-file={JIT_FILE}",
        ],
        "env": [*env, jit],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "100m", "memory": "128Mi"},
        },
        "securityContext": {
            **_CONFINED,
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "tuist-runner-jit", "mountPath": _JIT},
            {"name": token["name"], "mountPath": _TOKEN, "readOnly": True},
        ],
    }
    runner: Json = {
        "name": RUNNER,
        "image": pool.spec.image,
        "command": ["/bin/sh", "-c", _START],
        "env": [*env, jit],
        "resources": resources,
        "securityContext": dict(_CONFINED),
        "volumeMounts": [
            {"name": "tuist-runner-jit", "mountPath": _JIT, "readOnly": True},
            {"name": "work", "mountPath": _WORK},
        ],
    }
    volumes: list[Json] = [
        {"name": "tuist-runner-jit", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        token,
        {"name": "work", "emptyDir": {}},
    ]
    before: list[Json] = []
    if docker:
        before.append(_docker_daemon(settings))
        runner["env"] = [*runner["env"], {"name": "DOCKER_HOST", "value": f"unix://{_DOCKER}/docker.sock"}]
        runner["volumeMounts"] = [*runner["volumeMounts"], {"name": "dind-sock", "mountPath": _DOCKER}]
        volumes += [{"name": "dind-sock", "emptyDir": {}}, {"name": "dind-storage", "emptyDir": {}}]
    spec: Json = {
        "initContainers": [*before, poller],
        "containers": [runner],
        "volumes": volumes,
        "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": _NOBODY},
        "nodeSelector": {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            LINUX_POOL_LABEL: pool.spec.fleet_selector,
        },
        "tolerations": [
            {
                "key": "tuist.dev/runner-tier",
                "operator": "Equal",
                "value": "bare-metal",
                "effect": "NoSchedule",
            }
        ],
    }
    if pool.spec.runtime_class:
        spec["runtimeClassName"] = pool.spec.runtime_class
    return spec


def _docker_daemon(settings: PoolSettings) -> Json:
    """A native sidecar: it is up before the poller asks for a job, and does not keep the Pod from ending.

    Privileged, and therefore only inside a VM of its own (`shape_problem` refuses it without a RuntimeClass). Its
    storage is a sparse file system in a file, because the VM's shared one cannot be the upper layer of an overlay.
    """
    prepare = (
        "set -eu; disk=/var/lib/paddock-docker/disk.ext4; "
        '[ -e "$disk" ] || { truncate -s 100G "$disk"; mkfs.ext4 -q -F "$disk"; }; '
        'mkdir -p /var/lib/docker; mount -o loop "$disk" /var/lib/docker; '
        f"exec dockerd-entrypoint.sh dockerd --host=unix://{_DOCKER}/docker.sock "
        f"--group={_RUNNERS_DOCKER_GROUP}"
    )
    return {
        "name": "dind",
        "image": settings.docker_image,
        "restartPolicy": "Always",
        "command": ["sh", "-c", prepare],
        "env": [{"name": "DOCKER_HOST", "value": f"unix://{_DOCKER}/docker.sock"}],
        "securityContext": {"privileged": True},
        "startupProbe": {"exec": {"command": ["docker", "info"]}, "periodSeconds": 2, "failureThreshold": 60},
        "volumeMounts": [
            {"name": "dind-sock", "mountPath": _DOCKER},
            {"name": "dind-storage", "mountPath": "/var/lib/paddock-docker"},
        ],
    }
