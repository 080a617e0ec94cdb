"""The `Authenticator` of the internal interface over the dispatch process's own reviews of tokens."""

from paddock.base.secrets import Secret
from paddock.runners.dispatch.errors import IdentityError, Unreachable
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.http.internal import Denied, Principal, Undecided

__all__ = ["TokenAuthenticator"]


class TokenAuthenticator:
    """Asks the API server about every token: these calls are few, and what they allow ends claims."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def principal(self, token: Secret, audience: str | None) -> Principal:
        try:
            found = await self._tokens.principal(token, audience)
        except Unreachable as error:
            raise Undecided(str(error)) from None
        except IdentityError as error:
            raise Denied(str(error)) from None
        return Principal(found.username, found.pod_name, found.pod_uid)
