"""Why a request keeps failing, in one line that names the remedy. Pure."""

from dataclasses import dataclass

from paddock.kube.errors import (
    ApiError,
    ConfigError,
    ForbiddenError,
    KubeError,
    ThrottledError,
    TransportError,
    UnauthorizedError,
    UnknownKindError,
)
from paddock.kube.resource import Resource

__all__ = ["Diagnosis", "diagnose"]


_BUILT_IN = ("apps", "batch", "policy", "coordination.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`state` is equal while the trouble is the same, though `text` may differ in detail: log when it changes."""

    state: str
    text: str


def diagnose(error: KubeError, resource: Resource, server: str) -> Diagnosis:
    """What people have to do about an error that list or watch of a resource met."""
    what = f"{resource.plural} ({resource.api_version})"
    match error:
        case UnknownKindError():
            remedy = ": install the CustomResourceDefinitions (kubectl apply --server-side -f deploy/crds)"
            built_in = not resource.group or resource.group in _BUILT_IN
            return Diagnosis("unknown-kind", f"{server} does not serve {what}{'' if built_in else remedy}")
        case ForbiddenError():
            group = resource.group or "core"
            return Diagnosis(
                "forbidden",
                f"not allowed to read {what}: grant get, list and watch on {resource.plural} in the API group {group} "
                f"(the server says: {error.message})",
            )
        case UnauthorizedError():
            return Diagnosis(
                "unauthorized",
                f"{server} does not accept our identity: renew the token or certificate of the kubeconfig",
            )
        case ThrottledError():
            return Diagnosis("throttled", f"{server} asks us to slow down on {what}")
        case ApiError():
            return Diagnosis(f"answer-{error.code}", f"{server} fails on {what} with {error.code}: {error.message}")
        case ConfigError():
            return Diagnosis("config", str(error))
        case TransportError():
            return Diagnosis("away", f"{server} does not answer: check its address and that it runs ({error})")
        case _:
            return Diagnosis(type(error).__name__, f"{what}: {error}")
