"""Where a runner stands in a list, if it is registered at all."""

import pytest

from paddock.clients.github import RunnerPlace
from paddock.runners.healing.runner_lists import possible_places
from paddock.runners.ledger.registrations import Registration

ORGANISATION, REPOSITORY = RunnerPlace(7, "acme"), RunnerPlace(7, "acme", "app")


def registered(place: str | None, *, login: str = "acme", repository: str = "acme/app") -> Registration:
    return Registration(
        account_id=1, login=login, installation_id=7, runner_name="mine", repository=repository, place=place
    )


@pytest.mark.parametrize(
    ("registration", "places"),
    [
        (registered("orgs/acme"), (ORGANISATION,)),
        (registered("repos/acme/app"), (REPOSITORY,)),
        (registered("repos/acme/web"), (RunnerPlace(7, "acme", "web"),)),
        (registered("orgs/acme", login="acme-corp"), (RunnerPlace(7, "acme-corp"),)),
        (registered(None), (ORGANISATION, REPOSITORY)),
        (registered(None, repository=""), ()),
    ],
    ids=["organisation", "repository", "of another job", "renamed", "not kept", "nothing known"],
)
def test_the_place_of_registration_is_asked_alone_where_it_was_kept(
    registration: Registration, places: tuple[RunnerPlace, ...]
) -> None:
    assert possible_places(registration) == places
