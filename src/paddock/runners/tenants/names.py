"""What a person means by `acme`, `acme/app` or `id:42`: GitHub's numbers, asked of GitHub now.

A login may have changed hands since it was last heard of here, so that only GitHub can say whose it is. A number needs no
question.
"""

import re
from typing import Final

from msgspec import Struct

from paddock.clients.github import GitHub, GitHubError, Installation, NotFound
from paddock.runners.ledger import Ledger

__all__ = ["Named", "UnknownNameError", "is_name", "resolve", "resolve_listed"]

_LOGIN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_NAME: Final = re.compile(
    rf"(?:id:(?P<id>[1-9][0-9]{{0,17}})|(?P<login>{_LOGIN}))(?:/(?:id:(?P<repository_id>[1-9][0-9]{{0,17}})|(?P<repository>[A-Za-z0-9._-]+)))?"
)


class UnknownNameError(Exception):
    """Nobody is to be found under that name; the message says what to do."""


class Named(Struct, frozen=True):
    """An account (`repository_id` 0) or a repository, by GitHub's numbers. `name` is for people."""

    account_id: int
    name: str
    repository_id: int = 0
    login: str = ""
    installation_id: int | None = None

    @property
    def sentence(self) -> str:
        if self.repository_id:
            return f"repository {self.name} (number {self.repository_id} of account {self.account_id})"
        return f"account {self.name} (number {self.account_id})"


def is_name(text: str) -> bool:
    """Whether it is written like a name of an account or a repository."""
    found = _NAME.fullmatch(text)
    # A repository of an account that is given by number must be given by number, too: there is no path to ask by.
    return found is not None and not (found["id"] and found["repository"])


async def resolve(text: str, ledger: Ledger, github: GitHub) -> Named:
    """Whom the name means at GitHub now. UnknownNameError with the remedy; GitHubError where GitHub cannot be asked."""
    found = _NAME.fullmatch(text)
    if found is None or not is_name(text):
        raise UnknownNameError(
            f"{text!r} is no name of an account or repository: write acme, acme/app, id:42 or id:42/id:7"
        )
    if found["id"]:
        return await _by_number(int(found["id"]), int(found["repository_id"] or 0), ledger)
    installation = await _installation_of(found["login"], github)
    if installation is None:
        raise UnknownNameError(
            f"the GitHub App is not installed for {found['login']}: install it there first, or give the account's number"
            " (id:42, which https://api.github.com/users/NAME shows as id)"
        )
    whose = {"login": installation.login, "installation_id": installation.installation_id}
    if found["repository_id"]:
        number = int(found["repository_id"])
        return Named(installation.account_id, f"{installation.login}/id:{number}", number, **whose)
    if not found["repository"]:
        return Named(installation.account_id, installation.login, **whose)
    try:
        repository = await github.repository(
            installation.installation_id, f"{installation.login}/{found['repository']}"
        )
    except NotFound as error:
        raise UnknownNameError(
            f"GitHub shows the App no repository {text}: is the name right, and may the App see it?"
        ) from error
    if repository.owner_id != installation.account_id:
        raise UnknownNameError(f"{text} is {repository.full_name} now, of another account: name it so")
    return Named(installation.account_id, repository.full_name, repository.repository_id, **whose)


async def resolve_listed(text: str, ledger: Ledger, github: GitHub) -> Named:
    """As `resolve`, but what the list shows under that name is taken as meant, if it is one: to deny needs no GitHub."""
    listed = [entry for entry in await ledger.allow_list.entries() if entry.name.lower() == text.lower()]
    if len(listed) == 1:
        return Named(listed[0].account_id, listed[0].name, listed[0].repository_id)
    try:
        return await resolve(text, ledger, github)
    except GitHubError as error:
        account = await ledger.accounts.of_login(text)
        if account is None:
            raise
        raise UnknownNameError(
            f"GitHub cannot be asked who {text} is now ({error}): give the number, id:{account.account_id} if it is the"
            " account that was last heard of under that login"
        ) from error


async def _by_number(account_id: int, repository_id: int, ledger: Ledger) -> Named:
    account = await ledger.accounts.get(account_id)
    login = account.login if account is not None else f"id:{account_id}"
    installation_id = account.installation_id if account is not None else None
    name = f"{login}/id:{repository_id}" if repository_id else login
    known = account.login if account is not None else ""
    return Named(account_id, name, repository_id, login=known, installation_id=installation_id)


async def _installation_of(login: str, github: GitHub) -> Installation | None:
    return next((one for one in await github.installations() if one.login.lower() == login.lower()), None)
