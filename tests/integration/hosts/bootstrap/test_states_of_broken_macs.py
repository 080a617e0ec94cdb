"""The states in which Macs were found. Each ends Ready, or fails with the reason that leads to the right remedy."""

import time

import pytest
from integration.hosts.bootstrap.rig import Rig

from paddock.base.secrets import Password
from paddock.clients.ssh import AsyncSsh
from paddock.hosts.bootstrap import Failed, FailureKind, Ready

ANCHOR = "tuist.runners"
TABLES = {"vm_sources", "blocked_dst"}


def never_reloads_pf_conf(rig: Rig) -> bool:
    loads = [line for line in rig.lines() if line.startswith("pfctl") and " -f " in line and " -n " not in line]
    assert loads
    return all(" -a " in line for line in loads)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scope", [pytest.param("anchor", marks=pytest.mark.slow), pytest.param("main", marks=pytest.mark.slow), "both"]
)
@pytest.mark.parametrize("anchor", [ANCHOR, pytest.param("com.apple/tuist.runners", marks=pytest.mark.slow)])
async def test_tables_that_persist_in_any_scope_are_recovered_from(rig: Rig, scope, anchor: str):
    rig.mac.persist_tables(scope, anchor=anchor)
    await rig.ready()
    assert not TABLES & set(rig.mac.pf.tables())
    assert not any(table.persist for table in rig.mac.pf.tables(ANCHOR).values())
    assert rig.mac.pf.rules(ANCHOR)
    assert never_reloads_pf_conf(rig)
    await rig.mac.settled()
    rig.mac.effects.clear()
    await rig.ready()
    assert rig.mac.effects == []


@pytest.mark.parametrize(
    "scope", [pytest.param("anchor", marks=pytest.mark.slow), pytest.param("main", marks=pytest.mark.slow), "both"]
)
@pytest.mark.slow
async def test_they_are_recovered_from_on_a_live_host_too(rig: Rig, scope):
    await rig.ready()
    rig.mac.persist_tables(scope)
    rig.mac.calls.clear()
    rig.mac.write("/etc/pf.anchors/tuist.runners", b"# rules of an earlier version\n")
    await rig.update()
    assert not TABLES & set(rig.mac.pf.tables())
    assert not any(table.persist for table in rig.mac.pf.tables(ANCHOR).values())
    assert never_reloads_pf_conf(rig)


@pytest.mark.slow
@pytest.mark.parametrize(
    "left_behind",
    [
        'anchor "tuist.runners"\nload anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"\n',
        pytest.param('# BEGIN tuist.runners\nanchor "tuist.runners"\n# END tuist.runners\n', marks=pytest.mark.slow),
    ],
    ids=["bare lines", "an older block"],
)
async def test_pf_conf_of_an_earlier_version_ends_with_one_block_and_apples_anchors(rig: Rig, left_behind: str):
    stock = rig.mac.read("/etc/pf.conf").decode()
    rig.mac.write("/etc/pf.conf", stock + left_behind)
    await rig.ready()
    text = rig.mac.read("/etc/pf.conf").decode()
    assert text.startswith(stock)
    assert text.count("# BEGIN tuist.runners") == text.count('\nanchor "tuist.runners"') == 1
    assert text.count('load anchor "tuist.runners"') == 1
    rig.mac.reboot()
    await rig.mac.settled()
    assert rig.mac.pf.rules(ANCHOR)
    assert 'nat-anchor "com.apple/*"' in "\n".join(rig.mac.pf.translations())


@pytest.mark.slow
async def test_rules_are_evaluated_before_the_first_reboot_and_only_once_after_it(rig: Rig):
    await rig.ready()
    # The main rules do not name our anchor yet; Apple's own line evaluates what is below com.apple.
    assert ANCHOR not in "\n".join(rig.mac.pf.rules())
    assert rig.mac.pf.rules("com.apple/tuist.runners")
    rig.mac.reboot()
    await rig.mac.settled()
    assert ANCHOR in "\n".join(rig.mac.pf.rules())
    assert not rig.mac.pf.rules("com.apple/tuist.runners")


@pytest.mark.slow
async def test_a_sealed_automatic_login_is_healed_with_the_right_password(rig: Rig):
    await rig.ready()
    rig.mac.seal_password()
    again = await rig.ready()
    assert again.changed_steps == ("auto-login",)
    assert rig.mac.session == "Aqua"


@pytest.mark.slow
async def test_a_password_that_macos_does_not_accept_is_found_out_although_macos_says_nothing(rig: Rig):
    await rig.ready()
    # sudo needs no password any more, so only automatic login can notice that this one is not the user's.
    failed = await rig.failed(rig.host(password=Password("an old one")))
    assert (failed.step, failed.kind, failed.exit_status) == ("auto-login", FailureKind.PASSWORD_SEALED, 72)


async def test_without_a_usable_password_sudo_is_never_asked_with_one(rig: Rig):
    failed = await rig.failed(rig.host(password=None))
    assert (failed.step, failed.kind) == ("passwordless-sudo", FailureKind.NO_PASSWORD)
    assert rig.mac.wrong_passwords.get("m1", 0) == 0
    assert not any("-S" in line.split() for line in rig.lines() if line.startswith("sudo"))


@pytest.mark.slow
async def test_without_a_password_a_host_that_has_sudo_ends_ready_and_says_what_was_left_out(rig: Rig):
    await rig.ready()
    content = rig.mac.read("/etc/kcpassword")
    again = await rig.ready(rig.host(password=None))
    assert [step for step, _ in again.skipped] == ["auto-login"]
    assert rig.mac.read("/etc/kcpassword") == content


@pytest.mark.slow
async def test_a_wrong_password_is_tried_once_and_never_again_until_it_changes(rig: Rig):
    wrong = rig.host(password=Password("wrong"))
    first = await rig.failed(wrong)
    assert (first.step, first.kind, first.exit_status) == ("passwordless-sudo", FailureKind.PASSWORD_REFUSED, 71)
    assert rig.mac.wrong_passwords["m1"] == 1
    for _ in range(10):
        again = await rig.failed(wrong)
        assert (again.kind, again.exit_status) == (FailureKind.PASSWORD_REFUSED, 74)
    assert rig.mac.wrong_passwords["m1"] == 1
    assert not rig.mac.locked
    await rig.ready()


@pytest.mark.slow
async def test_a_locked_account_is_healed_by_one_reboot_and_the_same_password_is_tried_again(rig: Rig):
    rig.mac.lock_account()
    failed = await rig.failed()
    assert failed.kind is FailureKind.PASSWORD_REFUSED
    assert failed.kind.blames_host
    assert (await rig.failed()).exit_status == 74
    rig.mac.reboot()
    await rig.ready()


@pytest.mark.slow
async def test_keys_of_an_earlier_tenant_are_an_answer_and_not_a_reason_to_wait(rig: Rig):
    rig.mac.leave_stale_keys()
    began = time.perf_counter()
    outcome = await rig.bootstrap(reach_for=60.0).run(rig.host(), rig.fleet, rig.note)
    assert isinstance(outcome, Failed)
    assert (outcome.step, outcome.kind) == ("reach-ssh", FailureKind.AUTH_REFUSED)
    assert "scw_authorized_keys" in outcome.sentence
    assert time.perf_counter() - began < 50.0, "it did not wait out `reach_for`"
    rig.mac.reinstall(keys=[rig.key.public])
    await rig.ready()


async def test_a_host_ordered_before_the_key_was_registered_says_so(rig: Rig):
    rig.mac.forget_project_key()
    assert (await rig.failed()).kind is FailureKind.AUTH_REFUSED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("hang", FailureKind.HANGS),
        pytest.param("refuse", FailureKind.REFUSED, marks=pytest.mark.slow),
        pytest.param("timeout", FailureKind.TIMED_OUT, marks=pytest.mark.slow),
    ],
)
async def test_every_way_of_not_answering_has_its_own_name_and_a_reboot_heals_it(rig: Rig, mode, kind: FailureKind):
    rig.mac.wedge_sshd(mode)
    failed = await rig.failed()
    assert (failed.step, failed.kind) == ("reach-ssh", kind)
    assert failed.kind.unreachable
    assert failed.host_key is None
    rig.mac.reboot()
    await rig.ready()


@pytest.mark.slow
async def test_a_wedged_sshd_hangs_over_a_real_connection_too(rig: Rig):
    host = rig.host()
    rig.mac.wedge_sshd("hang")
    outcome = await rig.bootstrap(AsyncSsh(), dial_timeout=0.5).run(host, rig.fleet)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.HANGS


@pytest.mark.slow
async def test_a_host_that_is_still_starting_is_waited_for(rig: Rig):
    rig.mac.wedge_sshd("refuse")
    dials = 0

    class Counting:
        def __init__(self) -> None:
            self.inner = rig.mac.ssh()

        def connect(self, target, *, timeout: float = 15.0):
            nonlocal dials
            dials += 1
            if dials == 3:
                rig.mac.revive_sshd()
            return self.inner.connect(target, timeout=timeout)

        async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
            return await self.inner.host_key(address, port, timeout=timeout)

    outcome = await rig.bootstrap(Counting(), reach_for=5.0).run(rig.host(), rig.fleet, rig.note)
    assert isinstance(outcome, Ready)
    assert dials == 3


@pytest.mark.slow
async def test_the_watchdog_on_the_host_opens_a_wedged_port_again(rig: Rig):
    await rig.ready()
    rig.mac.wedge_sshd("hang")
    assert (await rig.failed()).kind is FailureKind.HANGS
    rig.mac.launchd.run_interval_jobs()
    await rig.mac.settled()
    await rig.ready()
