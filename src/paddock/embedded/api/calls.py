"""What a request asks for: its URL taken apart, its body decoded, and who sent it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
import yaml

from paddock.embedded.api import status
from paddock.embedded.api.documents import protobuf
from paddock.embedded.api.kinds import Kind, Kinds

__all__ = ["ApiCall", "Target", "User", "aim", "decode_body", "demanded", "flag", "verb_of"]

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_ACCEPTED = ("application/json", "application/yaml", _PROTOBUF)


@dataclass(frozen=True, slots=True)
class User:
    """Who asks: a name and groups, as TokenReview would show them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL points at. Without a name it is the collection; with neither kind it is not an object URL."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, ready to be answered."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: User
    guard: Callable[[Kind, dict[str, Any] | None, dict[str, Any], str], Awaitable[None]] | None = None
    """Refuses what this user may not write although the URL was allowed."""

    @classmethod
    def parse_query(cls, raw: bytes) -> dict[str, str]:
        return dict(parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True))

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    @property
    def accept(self) -> str:
        return self.headers.get("accept", "")

    @property
    def takes_json(self) -> bool:
        """Whether JSON is among what the client accepts; it is the only language spoken here."""
        return self.takes("application/json")

    def takes(self, media: str) -> bool:
        """Whether the client accepts this type, by its name or by a wildcard."""
        kinds = {part.split(";")[0].strip() for part in self.accept.split(",")}
        return not self.accept or bool(kinds & {media, "application/*", "*/*"})

    @property
    def wants_table(self) -> bool:
        return "as=Table" in self.accept.split(",")[0]

    @property
    def wants_metadata(self) -> str | None:
        """The version of `meta.k8s.io` in which the client asks for metadata alone, if that is its first choice."""
        media, *parameters = (part.strip() for part in self.accept.split(",")[0].split(";"))
        given = {name: value for name, _, value in (parameter.partition("=") for parameter in parameters)}
        if media != "application/json" or given.get("g") != "meta.k8s.io":
            return None
        wanted = given.get("as") in ("PartialObjectMetadata", "PartialObjectMetadataList")
        return given.get("v") or "v1" if wanted else None


def aim(kinds: Kinds, path: str) -> Target | None:
    """The target of a path below /api or /apis, or None where the path names no resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])
    kind = kinds.get(group, version, plural)
    if kind is not None and ((namespace and not kind.namespaced) or (name and kind.namespaced and not namespace)):
        kind = None  # no such path: the scope of the kind is another
    return Target(group, version, plural, namespace, name, subresource, kind)


def verb_of(call: ApiCall, target: Target) -> str:
    """The verb that authorisation is asked about."""
    match call.method:
        case "GET":
            if target.name:
                return "get"
            return "watch" if flag(call.query, "watch") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            raise status.method_not_allowed()


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a boolean query parameter is set; `?watch=` counts as set, as it does for a real server."""
    return query.get(name, "false").lower() in ("true", "1", "")


def demanded(selector: str) -> dict[str, str]:
    """What a field selector demands to be equal, for authorisation; what it demands to differ narrows nothing there."""
    terms = [term.replace("==", "=").partition("=") for term in selector.split(",") if "!=" not in term]
    return {field.strip(): value.strip() for field, equal, value in terms if equal}


def decode_body(call: ApiCall) -> dict[str, Any]:
    """The body as a JSON object, whether it came as JSON, YAML or protobuf; 400 or 415 when it is none of them."""
    kind = call.content_type
    if kind == _PROTOBUF:
        return protobuf.decode(call.body)
    try:
        if kind in ("", "application/json", "*/*"):
            body = msgspec.json.decode(call.body)
        elif kind in ("application/yaml", "application/apply-patch+yaml"):
            body = from_yaml(call.body)
        else:
            raise status.unsupported_media_type(_ACCEPTED)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise status.bad_request(f"the body of the request cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise status.bad_request("the body of the request must be an object")
    return body


def from_yaml(text: bytes) -> Any:
    """YAML as JSON would have it; what is JSON already (kubectl sends that) is read at full speed."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return yaml.safe_load(text.decode())
