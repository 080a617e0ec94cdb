"""For whom the tokens in a Pod's volumes are meant. Pure."""

from paddock.kube.builtin import Pod

__all__ = ["audiences_of"]


def audiences_of(pod: Pod) -> set[str]:
    """The audiences of the Pod's projected tokens; empty where it has none."""
    tokens = [
        source.get("serviceAccountToken") or {}
        for volume in pod.spec.volumes
        for source in (volume.get("projected") or {}).get("sources", [])
    ]
    return {token["audience"] for token in tokens if token.get("audience")}
