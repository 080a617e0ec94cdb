"""Accounts and repositories that change their names: reads are sent on by number, and what runs goes on."""

from unit.simulator.github.rig import LABELS, Rig


async def test_a_renamed_repository_sends_its_callers_on_by_its_number(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    number = rig.github.rename_repository("acme/app", "ios").id

    answer = await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")
    assert answer.status_code == 301
    assert answer.headers["Location"] == f"http://127.0.0.1/repositories/{number}/actions/jobs/{job.id}"
    assert answer.json()["message"] == "Moved Permanently"
    followed = await rig.call("GET", answer.headers["Location"])
    assert followed.json()["id"] == job.id
    assert "/repos/acme/ios/" in followed.json()["url"]


async def test_what_changes_something_keeps_its_method_and_the_query_is_kept(rig: Rig):
    rig.github.rename_repository("bob/toy", "tool")

    assert (await rig.mint("repos/bob/toy", as_="bob")).status_code == 307
    listed = await rig.call("GET", "/repos/bob/toy/actions/runners?per_page=5", as_="bob")
    assert listed.headers["Location"].endswith("/actions/runners?per_page=5")
    assert (await rig.call("GET", listed.headers["Location"], as_="bob")).json()["runners"] == []


async def test_a_former_name_leads_nowhere_for_strangers_and_once_it_is_taken_again(rig: Rig):
    number = rig.github.rename_repository("acme/app", "ios").id
    assert (await rig.call("GET", "/repos/acme/app", as_="bob")).status_code == 404
    assert (await rig.call("GET", f"/repositories/{number}", as_="bob")).status_code == 404

    rig.github.add_repository("acme/app")
    again = await rig.call("GET", "/repos/acme/app")
    assert again.status_code == 200
    assert again.json()["id"] != number


async def test_runners_and_jobs_of_a_renamed_organisation_go_on(rig: Rig):
    job, _ = await rig.running(duration=60.0)
    idle = await rig.runner()
    before = rig.github.account("acme").id
    rig.github.rename_account("acme", "acme-inc")
    waiting = rig.github.submit("acme-inc/app", labels=LABELS)
    taken = await idle.next_job(10)

    assert taken is not None
    assert taken.job_id == waiting.id
    assert rig.github.job(job.id).status == "in_progress"
    assert len((await rig.call("GET", "/orgs/acme-inc/actions/runners")).json()["runners"]) == 2
    assert (await rig.call("GET", "/orgs/acme/actions/runners")).status_code == 404
    moved = await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")
    assert moved.status_code == 301
    await rig.deliver()
    renamed = next(payload for payload in rig.receiver.payloads if payload["action"] == "renamed")
    assert renamed["account"]["id"] == before
    assert renamed["changes"] == {"login": {"from": "acme"}}


async def test_a_transferred_repository_is_seen_by_its_new_owner_alone(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.github.transfer_repository("acme/app", "bob")

    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}")).status_code == 404
    assert (await rig.call("GET", f"/repos/bob/app/actions/jobs/{job.id}", as_="bob")).json()["id"] == job.id
    assert (await rig.call("GET", f"/repos/acme/app/actions/jobs/{job.id}", as_="bob")).status_code == 301
    assert sorted(await rig.deliver()) == ["added", "queued", "removed"]
