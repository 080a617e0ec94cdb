"""Who may ask the internal interface, by the dispatch process's reviews of tokens."""

from typing import Any, cast

import pytest

from paddock.base.secrets import Secret
from paddock.runners.dispatch.errors import NotAllowed, Unauthenticated, Unreachable
from paddock.runners.dispatch.identity import Principal as Reviewed
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.http.authentication import TokenAuthenticator
from paddock.runners.http.internal import Denied, Principal, Undecided


class PaperTokens:
    def __init__(self, answer: Reviewed | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str | None]] = []

    async def principal(self, token: Secret, audience: str | None = None) -> Reviewed:
        self.asked.append((token.reveal(), audience))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def authenticator(tokens: PaperTokens) -> TokenAuthenticator:
    return TokenAuthenticator(cast("Tokens", cast("Any", tokens)))


async def test_what_the_review_says_is_passed_on_for_the_audience_that_was_asked_for():
    tokens = PaperTokens(Reviewed("system:serviceaccount:default:runner-1", "runner-1", "uid-1"))
    found = await authenticator(tokens).principal(Secret("t"), "tuist-runners-dispatch")
    assert found == Principal("system:serviceaccount:default:runner-1", "runner-1", "uid-1")
    assert tokens.asked == [("t", "tuist-runners-dispatch")]


@pytest.mark.parametrize(
    ("refusal", "becomes"),
    [(Unauthenticated("no"), Denied), (NotAllowed("no"), Denied), (Unreachable("no"), Undecided)],
)
async def test_a_token_that_cannot_be_reviewed_is_not_a_token_that_is_refused(refusal: Exception, becomes: type):
    with pytest.raises(becomes):
        await authenticator(PaperTokens(refusal)).principal(Secret("t"), None)
