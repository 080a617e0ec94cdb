"""Connection settings: what is read, and that every mistake names its file and field."""

import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from doubles.clocks import SteppedClock

from paddock.base.clock import SystemClock
from paddock.base.secrets import Secret
from paddock.kube import config as kubeconfig
from paddock.kube.credentials import TokenFile
from paddock.kube.errors import ConfigError


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def document(user: Any = None, cluster: Any = None, **context: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "t0ken"} if user is None else user}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
    }


@pytest.fixture
def write(tmp_path: Path):
    def _write(content: Any, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return _write


async def test_a_token_a_certificate_authority_and_a_namespace_are_read(write):
    path = write(
        document(cluster={"server": "https://x:1/", "certificate-authority-data": b64("PEM")}, namespace="fleet")
    )
    config = kubeconfig.from_kubeconfig(path)
    assert (config.server, config.ca, config.namespace, config.insecure) == ("https://x:1", "PEM", "fleet", False)
    assert (await config.credentials.current()).token == Secret("t0ken")
    assert "t0ken" not in repr(config)


async def test_files_are_found_beside_the_kubeconfig(write, tmp_path):
    for name in ("ca.pem", "cert.pem", "key.pem"):
        write(name.upper(), name)
    write("rotated\n", "token")
    user = {"client-certificate": "cert.pem", "client-key": "key.pem", "tokenFile": "token"}
    path = write(document(user, {"server": "https://x", "certificate-authority": "ca.pem"}))
    config = kubeconfig.from_kubeconfig(path)
    identity = await config.credentials.current()
    assert config.ca == "CA.PEM"
    assert identity.certificate == "CERT.PEM"
    assert identity.key == Secret("KEY.PEM")
    assert identity.token == Secret("rotated")


async def test_kubeconfig_lists_files_and_the_first_that_names_a_thing_wins(write, tmp_path):
    first = write({"current-context": "main", "contexts": document()["contexts"]}, "first")
    second = write(document(), "second")
    listed = os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])
    config = kubeconfig.load(environ={"KUBECONFIG": listed})
    assert config.server == "https://api.example:6443"


def test_another_context_can_be_chosen(write):
    content = document()
    content["clusters"].append({"name": "other", "cluster": {"server": "http://127.0.0.1:1"}})
    content["contexts"].append({"name": "second", "context": {"cluster": "other"}})
    assert kubeconfig.from_kubeconfig(write(content), context="second").server == "http://127.0.0.1:1"


def test_impersonation_is_kept(write):
    config = kubeconfig.from_kubeconfig(write(document({"token": "t", "as": "jane", "as-groups": ["dev"]})))
    assert config.impersonate == (("Impersonate-User", "jane"), ("Impersonate-Group", "dev"))


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("just text", "is not a kubeconfig"),
        ("a: [", "is not YAML, line"),
        ({"clusters": []}, "current-context"),
        (document() | {"current-context": "nope"}, "current-context: there is no entry named 'nope' in contexts"),
        (document() | {"clusters": []}, "contexts[main].context.cluster: there is no entry named 'c'"),
        (document() | {"users": []}, "contexts[main].context.user: there is no entry named 'u'"),
        (document() | {"users": {"a": 1}}, "users: must be a list"),
        (document(cluster={"x": 1}), "clusters[c].cluster.server: is missing"),
        (document(cluster={"server": "https://[::1"}), "clusters[c].cluster.server: is no address such as"),
        (document(cluster={"server": "https://api:99999"}), "clusters[c].cluster.server: is no address such as"),
        (document(cluster={"server": "api:6443"}), "clusters[c].cluster.server: must start with https://"),
        (document(cluster={"server": 3}), "clusters[c].cluster.server: must be a text"),
        (
            document(cluster={"server": "https://x", "certificate-authority-data": "%%"}),
            "clusters[c].cluster.certificate-authority-data: is not PEM",
        ),
        (
            document(cluster={"server": "https://x", "certificate-authority": "gone.pem"}),
            "clusters[c].cluster.certificate-authority: there is no file",
        ),
        (
            document(
                cluster={
                    "server": "https://x",
                    "insecure-skip-tls-verify": True,
                    "certificate-authority-data": b64("x"),
                }
            ),
            "insecure-skip-tls-verify: contradicts",
        ),
        (
            document(cluster={"server": "https://x", "insecure-skip-tls-verify": "yes"}),
            "insecure-skip-tls-verify: must be true or false",
        ),
        (document({"client-certificate-data": b64("x")}), "users[u].user.client-key: is missing"),
        (document({"username": "root", "password": "x"}), "users[u].user.username: was removed"),
        (document({"auth-provider": {"name": "gcp"}}), "users[u].user.auth-provider: was removed"),
        (
            document({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}),
            "users[u].user.exec.command: is missing",
        ),
        (document({"exec": {"command": "x", "apiVersion": "v1"}}), "users[u].user.exec.apiVersion: must be"),
    ],
)
def test_a_mistake_names_the_file_and_the_field(write, content, field):
    path = write(content)
    with pytest.raises(ConfigError) as caught:
        kubeconfig.from_kubeconfig(path)
    assert str(path) in str(caught.value)
    assert field in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no file"):
        kubeconfig.from_kubeconfig(tmp_path / "gone")


def test_a_broken_file_never_shows_its_content(write):
    path = write("users:\n- token: s3cret\n  x: [s3cret")
    with pytest.raises(ConfigError) as caught:
        kubeconfig.from_kubeconfig(path)
    assert "s3cret" not in str(caught.value)


# --- inside a cluster ----------------------------------------------------------------------------------------------


async def test_a_pod_reads_its_service_account_and_the_token_as_it_rotates(tmp_path):
    for name, text in (("token", "one"), ("ca.crt", "PEM"), ("namespace", "fleet\n")):
        (tmp_path / name).write_text(text)

    clock = SteppedClock()
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    config = kubeconfig.in_cluster(environ=environ, folder=tmp_path, clock=clock)
    assert (config.server, config.ca, config.namespace) == ("https://[fd00::1]:6443", "PEM", "fleet")
    assert (await config.credentials.current()).token == Secret("one")
    (tmp_path / "token").write_text("two")
    assert (await config.credentials.current()).token == Secret("one")
    clock.step(61.0)
    assert (await config.credentials.current()).token == Secret("two")
    (tmp_path / "token").unlink()
    clock.step(69.0)
    assert (await config.credentials.current()).token == Secret("two"), "the last good token outlives a bad moment"


async def test_a_401_makes_a_rotated_token_count_at_once(tmp_path):
    (tmp_path / "token").write_text("one")
    credentials = TokenFile(tmp_path / "token", SystemClock())
    await credentials.current()
    assert not credentials.rejected(), "the same token again would be refused again"
    (tmp_path / "token").write_text("two")
    assert credentials.rejected()
    assert (await credentials.current()).token == Secret("two")


def test_outside_a_cluster_the_remedy_is_named(tmp_path):
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        kubeconfig.in_cluster(environ={}, folder=tmp_path)
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        kubeconfig.in_cluster(environ={"KUBERNETES_SERVICE_HOST": "x"}, folder=tmp_path)


# --- exec plugins --------------------------------------------------------------------------------------------------


def plugin(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "plugin.sh"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin.sh",
            "args": ["get"],
            "env": [{"name": "WHO", "value": "jane"}],
            "provideClusterInfo": True,
        }
    }


ANSWER = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"%s}}'


async def test_a_plugin_is_run_once_and_again_when_its_token_expires(write, tmp_path):
    expired = ', "expirationTimestamp": "2020-01-01T00:00:00Z"'
    config = kubeconfig.from_kubeconfig(write(document(plugin(tmp_path, f"echo '{ANSWER % ('tok', '')}'"))))
    for _ in range(3):
        assert (await config.credentials.current()).token == Secret("tok")
    assert (tmp_path / "runs").read_text().count("run") == 1
    assert config.credentials.rejected()
    await config.credentials.current()
    assert (tmp_path / "runs").read_text().count("run") == 2

    config = kubeconfig.from_kubeconfig(write(document(plugin(tmp_path, f"echo '{ANSWER % ('tok', expired)}'"))))
    await config.credentials.current()
    await config.credentials.current()
    assert (tmp_path / "runs").read_text().count("run") == 4


async def test_a_plugin_gets_its_arguments_environment_and_the_cluster(write, tmp_path):
    script = f"""echo "$1 $WHO $KUBERNETES_EXEC_INFO" > {tmp_path}/seen\necho '{ANSWER % ("tok", "")}'"""
    config = kubeconfig.from_kubeconfig(write(document(plugin(tmp_path, script))))
    await config.credentials.current()
    seen = (tmp_path / "seen").read_text()
    assert seen.startswith("get jane {")
    assert "https://api.example:6443" in seen


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo no such profile >&2; exit 3", "ended with 3: no such profile"),
        ("echo s3cret", "did not print a usable ExecCredential"),
        ("echo '{\"status\": {}}'", "apiVersion is not"),
        (f"echo '{ANSWER % ('', '')}'", "neither a token nor a certificate"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_its_field(write, tmp_path, script, complaint):
    path = write(document(plugin(tmp_path, script)))
    with pytest.raises(ConfigError) as caught:
        await kubeconfig.from_kubeconfig(path).credentials.current()
    assert complaint in str(caught.value)
    assert "users[u].user.exec" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_plugin_that_is_not_installed_shows_its_hint(write):
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-plugin-here",
            "installHint": "Install it from the portal.",
        }
    }
    with pytest.raises(ConfigError, match=r"Install it from the portal\."):
        await kubeconfig.from_kubeconfig(write(document(user))).credentials.current()
