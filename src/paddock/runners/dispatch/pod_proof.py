"""What stands for a Pod while it waits for a job: the token of its own account, or the key of the Mac that it is on."""

from dataclasses import dataclass
from typing import Protocol, final

from paddock.base.secrets import Secret
from paddock.runners.dispatch.identity import PodIdentity, Tokens

__all__ = ["AskingMac", "PodProof", "TokenProof"]


@dataclass(frozen=True, slots=True)
class AskingMac:
    """The Mac that asks for its Pod's job: its machine's uid, and whether it says that all its VMs are behind Softnet now, which its
    Node's label may lag.
    """

    uid: str
    softnet: bool


class PodProof(Protocol):
    """Held as long as its Pod waits, and asked afresh before a job is handed over."""

    @property
    def mac(self) -> AskingMac | None:
        """Who asks; None where the Pod asks itself."""
        ...

    async def confirm(self) -> None:
        """Whether it still speaks for this very Pod, by a read that no memory answers. IdentityError where it does not, Unreachable
        where nobody can say.
        """
        ...

    def lasts(self) -> float:
        """For how many seconds it is known to be good: a claim that is made for a Pod later than that would fail."""
        ...


@final
@dataclass(frozen=True, slots=True)
class TokenProof:
    """The Pod's projected token."""

    tokens: Tokens
    pod: PodIdentity
    token: Secret
    mac: None = None

    async def confirm(self) -> None:
        await self.tokens.confirm(self.pod, self.token)

    def lasts(self) -> float:
        return self.tokens.lasts(self.token)
