"""What the agent's cluster says of itself and of one Pod. A Mac may be given to another cluster while a job of the old one runs."""

from paddock.kube.builtin import Namespace, Pod
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, NotFoundError

__all__ = ["cluster_uid", "find_pod"]


async def cluster_uid(client: Client) -> str:
    """The uid of `kube-system`, which a cluster keeps for life; empty where the agent may not read it.

    Raises KubeError where the API server does not answer.
    """
    try:
        return (await client.get(Namespace, "kube-system")).metadata.uid
    except (ForbiddenError, NotFoundError):
        return ""


async def find_pod(client: Client, uid: str, namespace: str, name: str, node: str) -> Pod | None:
    """This very Pod; None where the API server says that it does not exist. Everything but a clear answer raises."""
    try:
        found = [await client.get(Pod, name, namespace)]
    except NotFoundError:
        return None
    except ForbiddenError:
        # The Node authorizer knows only Pods that exist and are bound here: of others it says 403. A list may still ask.
        selector = f"spec.nodeName={node},metadata.name={name}"
        found = (await client.list(Pod, namespace, field_selector=selector)).items
    return next((each for each in found if each.metadata.uid == uid), None)
