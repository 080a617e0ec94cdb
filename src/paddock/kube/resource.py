"""What a kind is: where the API serves it and how people see it."""

from dataclasses import dataclass, field
from urllib.parse import quote

__all__ = ["Column", "Resource", "Scale"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`: a JSONPath into the object; priority above zero shows with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0
    format: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where `kubectl scale` finds the replicas of a kind."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API serves it. The first seven fields make its URL; the rest makes its CustomResourceDefinition."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = True
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    longest_name: int = 0
    """A longer name is refused at admission, such as one that is no value of a label; 0: whatever the server takes."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`pods` or `runnerpools.tuist.dev`, as the server writes it in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource.

        For a namespaced kind, `namespace=None` names the collection over all namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
            if subresource is not None:
                parts.append(subresource)
        return "/".join(parts)
