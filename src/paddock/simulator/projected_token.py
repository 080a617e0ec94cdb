"""The token that the kubelet puts into the operator's Pod for dispatch, where no kubelet is."""

from paddock.base.secrets import Secret
from paddock.kube.client import Client
from paddock.kube.credentials import Identity
from paddock.runners.api import OPERATOR_AUDIENCE

__all__ = ["ProjectedToken"]


class ProjectedToken:
    """Asked for anew when it is refused: the kubelet would have put a new one there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._token: Secret | None = None

    async def current(self) -> Identity:
        if self._token is None:
            self._token, _ = await self._client.create_token(
                "paddock-operator", "default", audiences=[OPERATOR_AUDIENCE]
            )
        return Identity(token=self._token)

    def rejected(self) -> bool:
        self._token = None
        return True
