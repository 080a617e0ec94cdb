"""Runner groups of the simulated GitHub: known by number, open to some repositories, and GitHub keeps to it."""

from unit.simulator.github.rig import LABELS, Rig


async def test_every_organisation_has_a_default_group_and_others_are_listed_by_whom_they_serve(rig: Rig):
    macs = rig.github.add_group("acme", "macs", "app")
    listed = (await rig.call("GET", "/orgs/acme/actions/runner-groups")).json()
    assert [(one["name"], one["default"]) for one in listed["runner_groups"]] == [("Default", True), ("macs", False)]
    for project, names in {"app": ["Default", "macs"], "web": ["Default"]}.items():
        path = f"/orgs/acme/actions/runner-groups?visible_to_repository={project}"
        assert [one["name"] for one in (await rig.call("GET", path)).json()["runner_groups"]] == names
    assert macs.id > 1


async def test_a_group_that_is_not_there_is_refused_and_a_repository_has_none_but_the_default(rig: Rig):
    rig.github.account("acme").permissions["administration"] = "write"
    macs = rig.github.add_group("acme", "macs")
    assert (await rig.mint(runner_group_id=macs.id)).status_code == 201
    assert (await rig.mint(runner_group_id=macs.id + 1)).status_code == 422
    assert (await rig.mint("repos/acme/app", runner_group_id=macs.id)).status_code == 422
    assert (await rig.mint("repos/acme/app")).status_code == 201


async def test_a_runner_of_a_group_gets_no_job_of_a_repository_that_the_group_is_closed_to(rig: Rig):
    macs = rig.github.add_group("acme", "macs", "app")
    closed = rig.github.submit("acme/web", labels=LABELS)
    session = await rig.runner(runner_group_id=macs.id)
    assert await session.next_job(0) is None
    assert closed.status == "queued"
    open_ = rig.github.submit("acme/app", labels=LABELS)
    assignment = await session.next_job(10)
    assert assignment is not None
    assert assignment.job_id == open_.id


async def test_a_closed_default_group_leaves_its_runner_waiting_as_the_real_one_does(rig: Rig):
    rig.github.account("acme").permissions["administration"] = "write"
    rig.github.close_default_group("acme", "app")
    job = rig.github.submit("acme/web", labels=LABELS)
    assert await (await rig.runner()).next_job(0) is None
    session = await rig.runner("repos/acme/web")
    assignment = await session.next_job(10)
    assert assignment is not None
    assert assignment.job_id == job.id


async def test_a_public_repository_needs_a_group_that_allows_public_ones(rig: Rig):
    macs = rig.github.add_group("acme", "macs", allows_public=False)
    web = rig.github.state.repository("acme/web")
    assert web is not None
    web.private = False
    assert not macs.open_to(web)
    path = "/orgs/acme/actions/runner-groups?visible_to_repository=web"
    assert [one["name"] for one in (await rig.call("GET", path)).json()["runner_groups"]] == ["Default"]


async def test_groups_are_kept_over_a_restart(rig: Rig):
    import msgspec

    from paddock.simulator.github.state import GitHubState

    rig.github.add_group("acme", "macs", "app")
    again = msgspec.json.decode(msgspec.json.encode(rig.github.state), type=GitHubState)
    account = again.account("acme")
    assert account is not None
    assert [group.name for group in account.groups] == ["Default", "macs"]


async def test_a_renamed_organisation_keeps_its_number_and_frees_its_login(rig: Rig):
    before = rig.github.account("acme")
    number, app = before.id, rig.github.state.repository("acme/app")
    assert app is not None
    rig.github.rename_account("acme", "acme-inc")
    assert rig.github.account("acme-inc").id == number
    assert rig.github.state.repository("acme/app") is None
    renamed = rig.github.state.repository("acme-inc/app")
    assert renamed is not None
    assert renamed.id == app.id
    assert rig.github.add_organization("acme", "app").id != number
