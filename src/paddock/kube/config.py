"""How to reach the API server: from a kubeconfig file, or from inside a cluster.

Every mistake in a file becomes a ConfigError that names the file and the field. Settings that would be silently ignored
are mistakes, too: a connection made with less than what was written is not the one that was asked for.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from paddock.base.clock import Clock, SystemClock
from paddock.base.secrets import Secret
from paddock.kube.credentials import Credentials, ExecPlugin, FixedIdentity, Identity, TokenFile
from paddock.kube.errors import ConfigError

__all__ = ["Config", "from_kubeconfig", "in_cluster", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Config:
    """One connection. `ca` is PEM text; empty means the system's authorities."""

    server: str
    ca: str = ""
    insecure: bool = False
    credentials: Credentials = field(default_factory=FixedIdentity)
    namespace: str = "default"
    tls_server_name: str = ""
    proxy: str = ""
    impersonate: tuple[tuple[str, str], ...] = ()


def load(
    path: str | Path | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Config:
    """The connection an operator means: the given kubeconfig, else `KUBECONFIG`, else the cluster we run in, else
    `~/.kube/config`.
    """
    env = os.environ if environ is None else environ
    if path is not None or env.get("KUBECONFIG"):
        return from_kubeconfig(path, context=context, environ=env, clock=clock)
    if env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ=env, clock=clock)
    return from_kubeconfig(None, context=context, environ=env, clock=clock)


def in_cluster(
    *, environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT, clock: Clock | None = None
) -> Config:
    """The connection of a Pod: its ServiceAccount's token (re-read as it rotates), CA bundle and namespace."""
    env = os.environ if environ is None else environ
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "KUBERNETES_SERVICE_HOST is not set: this process does not run in a cluster; give a kubeconfig"
        )
    token = folder / "token"
    if not token.is_file():
        raise ConfigError(f"{token}: no token; does the Pod set automountServiceAccountToken: false?")
    address = f"[{host}]" if ":" in host else host
    namespace = folder / "namespace"
    return Config(
        server=f"https://{address}:{port}",
        ca=_read(folder / "ca.crt", str(folder / "ca.crt")),
        credentials=TokenFile(token, clock or SystemClock()),
        namespace=(_read(namespace, str(namespace)).strip() if namespace.is_file() else "") or "default",
    )


def from_kubeconfig(
    path: str | Path | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Config:
    """The connection that a kubeconfig's context names; without a path, `KUBECONFIG` (a list: the first file that
    names a thing wins), else `~/.kube/config`.
    """
    env = os.environ if environ is None else environ
    if path is not None:
        paths = [Path(path)]
    elif listed := env.get("KUBECONFIG"):
        # kubectl's rule: files of the list that do not exist are left out, so long as one does.
        paths = [Path(part) for part in listed.split(os.pathsep) if part]
        paths = [part for part in paths if part.exists()] or paths[:1]
    else:
        paths = [Path(env.get("HOME") or Path.home()) / ".kube" / "config"]
    files = [_Kubeconfig.read(each) for each in paths]

    wanted = context or next((f.current for f in files if f.current), "")
    if not wanted:
        raise ConfigError(f"{paths[0]}: current-context: is not set; set it with `kubectl config use-context NAME`")
    home, chosen = _pick(files, "contexts", "context", wanted, asked_by="current-context")
    cluster_home, cluster = _pick(
        files, "clusters", "cluster", home.text(chosen, "cluster"), asked_by=f"contexts[{wanted}].context.cluster"
    )
    name = home.text(chosen, "user", required=False)
    user_home, user = (
        _pick(files, "users", "user", name, asked_by=f"contexts[{wanted}].context.user")
        if name
        else (home, _Section({}, "users[]"))
    )
    insecure = cluster_home.flag(cluster, "insecure-skip-tls-verify")
    ca = cluster_home.data(cluster, "certificate-authority")
    if insecure and ca:
        raise cluster_home.mistake(
            cluster, "insecure-skip-tls-verify", "contradicts certificate-authority; drop one of them"
        )
    server = cluster_home.text(cluster, "server")
    if not server.startswith(("https://", "http://")):
        raise cluster_home.mistake(cluster, "server", "must start with https:// (or http:// on loopback)")
    if not _is_url(server):
        raise cluster_home.mistake(cluster, "server", "is no address such as https://10.0.0.1:6443")
    return Config(
        server=server.rstrip("/"),
        ca=ca,
        insecure=insecure,
        credentials=_credentials(user_home, user, cluster_home, cluster, clock or SystemClock()),
        namespace=home.text(chosen, "namespace", required=False) or "default",
        tls_server_name=cluster_home.text(cluster, "tls-server-name", required=False),
        proxy=cluster_home.text(cluster, "proxy-url", required=False),
        impersonate=_impersonation(user_home, user),
    )


@dataclass(frozen=True, slots=True)
class _Section:
    """One entry of a kubeconfig and where it stands, for messages."""

    values: Mapping[str, Any]
    where: str


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "_Kubeconfig":
        text = _read(path, str(path))
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            # The parser's own message quotes the file, which may hold keys: only the place is told.
            mark = getattr(error, "problem_mark", None)
            place = f", line {mark.line + 1}" if mark is not None else ""
            raise ConfigError(f"{path}: is not YAML{place}") from None
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: is not a kubeconfig (a mapping with clusters, users and contexts)")
        return cls(path, content)

    @property
    def current(self) -> str:
        value = self.content.get("current-context")
        return value if isinstance(value, str) else ""

    def section(self, group: str, inner: str, name: str) -> _Section | None:
        entries = self.content.get(group) or []
        if not isinstance(entries, list):
            raise ConfigError(f"{self.path}: {group}: must be a list")
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                values = entry.get(inner) or {}
                where = f"{group}[{name}].{inner}"
                if not isinstance(values, dict):
                    raise ConfigError(f"{self.path}: {where}: must be a mapping")
                return _Section(values, where)
        return None

    def mistake(self, section: _Section, key: str, text: str) -> ConfigError:
        return ConfigError(f"{self.path}: {section.where}.{key}: {text}")

    def text(self, section: _Section, key: str, *, required: bool = True) -> str:
        value = section.values.get(key)
        if value in (None, ""):
            if required:
                raise self.mistake(section, key, "is missing")
            return ""
        if not isinstance(value, str):
            raise self.mistake(section, key, f"must be a text, not {type(value).__name__}")
        return value

    def flag(self, section: _Section, key: str) -> bool:
        value = section.values.get(key, False)
        if not isinstance(value, bool):
            raise self.mistake(section, key, "must be true or false")
        return value

    def beside(self, name: str) -> Path:
        """A file that the kubeconfig names, relative to itself."""
        return self.path.parent / Path(name).expanduser()

    def data(self, section: _Section, key: str) -> str:
        """`KEY-data` (base64) if there, else the content of the file that `KEY` names, else an empty text."""
        if encoded := self.text(section, f"{key}-data", required=False):
            try:
                return base64.b64decode(encoded, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise self.mistake(section, f"{key}-data", "is not PEM in base64") from None
        if name := self.text(section, key, required=False):
            return _read(self.beside(name), f"{self.path}: {section.where}.{key}")
        return ""


def _pick(
    files: list[_Kubeconfig], group: str, inner: str, name: str, *, asked_by: str
) -> tuple[_Kubeconfig, _Section]:
    for file in files:
        if section := file.section(group, inner, name):
            return file, section
    where = ", ".join(str(f.path) for f in files)
    raise ConfigError(f"{where}: {asked_by}: there is no entry named {name!r} in {group}")


def _credentials(
    home: _Kubeconfig, user: _Section, cluster_home: _Kubeconfig, cluster: _Section, clock: Clock
) -> Credentials:
    for key, instead in (("auth-provider", "an exec plugin"), ("username", "a token or a client certificate")):
        if user.values.get(key):
            raise home.mistake(user, key, f"was removed from Kubernetes; use {instead}")
    certificate, key = home.data(user, "client-certificate"), home.data(user, "client-key")
    if bool(certificate) != bool(key):
        raise home.mistake(
            user, "client-key" if certificate else "client-certificate", "is missing; the two belong together"
        )
    secret_key = Secret(key) if key else None
    if token := home.text(user, "token", required=False):
        return FixedIdentity(Identity(Secret(token), certificate, secret_key))
    if name := home.text(user, "tokenFile", required=False):
        return TokenFile(home.beside(name), clock, certificate=certificate, key=secret_key)
    if user.values.get("exec"):
        return _plugin(home, user, cluster_home, cluster, clock)
    return FixedIdentity(Identity(None, certificate, secret_key))


def _plugin(
    home: _Kubeconfig, user: _Section, cluster_home: _Kubeconfig, cluster: _Section, clock: Clock
) -> ExecPlugin:
    values = user.values["exec"]
    if not isinstance(values, dict):
        raise home.mistake(user, "exec", "must be a mapping")
    section = _Section(values, f"{user.where}.exec")
    command = home.text(section, "command")
    if "/" in command and not command.startswith("/"):
        command = str(home.beside(command))
    api_version = home.text(section, "apiVersion")
    if not api_version.startswith("client.authentication.k8s.io/"):
        raise home.mistake(section, "apiVersion", "must be client.authentication.k8s.io/v1 or /v1beta1")
    if home.text(section, "interactiveMode", required=False) == "Always":
        raise home.mistake(section, "interactiveMode", "is Always, but a service has no terminal; use a token instead")
    args, env = values.get("args") or [], values.get("env") or []
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise home.mistake(section, "args", "must be a list of texts")
    if not isinstance(env, list) or not all(isinstance(e, dict) and "name" in e and "value" in e for e in env):
        raise home.mistake(section, "env", "must be a list of {name, value}")
    shown: dict[str, Any] | None = None
    if home.flag(section, "provideClusterInfo"):
        shown = {"server": cluster_home.text(cluster, "server")}
        if ca := cluster_home.data(cluster, "certificate-authority"):
            shown["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
        if cluster_home.flag(cluster, "insecure-skip-tls-verify"):
            shown["insecure-skip-tls-verify"] = True
    return ExecPlugin(
        command=command,
        args=args,
        env={str(e["name"]): str(e["value"]) for e in env},
        api_version=api_version,
        where=f"{home.path}: {section.where}",
        clock=clock,
        cluster=shown,
        install_hint=home.text(section, "installHint", required=False),
    )


def _impersonation(home: _Kubeconfig, user: _Section) -> tuple[tuple[str, str], ...]:
    groups = user.values.get("as-groups") or []
    if not isinstance(groups, list):
        raise home.mistake(user, "as-groups", "must be a list")
    name = home.text(user, "as", required=False)
    if groups and not name:
        raise home.mistake(user, "as-groups", "needs `as` beside it")
    if not name:
        return ()
    return (("Impersonate-User", name), *(("Impersonate-Group", str(group)) for group in groups))


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are not closed, a port that is none
        return False


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise ConfigError(f"{what}: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what}: cannot read {path}: {error}") from None
