"""Which cluster the agent asks. A Mac may be given to another one while a job of the old one runs on it."""

from paddock.kube.builtin import Namespace
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, NotFoundError

__all__ = ["cluster_uid"]


async def cluster_uid(client: Client) -> str:
    """The uid of `kube-system`, which a cluster keeps for life; empty where the agent may not read it.

    Raises KubeError where the API server does not answer.
    """
    try:
        return (await client.get(Namespace, "kube-system")).metadata.uid
    except (ForbiddenError, NotFoundError):
        return ""
