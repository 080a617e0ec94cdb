"""Logs, top, waiting, dry runs and the support archive: what people see of them."""

import re
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from doubles.clocks import SteppedClock
from unit.cli.scene import DONE_JOB, JOB, OTHER_JOB, Scene

from paddock.cli import main
from paddock.cli.redaction import redacted, redacted_text
from paddock.cli.ssh import arguments
from paddock.cli.waiting import Progress, waited
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.kube.builtin import Event, Node
from paddock.kube.errors import TransportError

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


def logged(scene: Scene, path: str, text: str, *, ended: bool = True) -> None:
    scene.ledger.json[f"{path}/log"] = {"text": text, "next": len(text), "ended": ended}


class TestLogs:
    def test_a_job_that_ended_is_shown_by_its_number(self, scene: Scene):
        logged(scene, f"jobs/{DONE_JOB}", "one\ntwo\nthree\n")
        assert scene.type("logs", str(DONE_JOB)).output == "one\ntwo\nthree\n"
        assert scene.type("logs", f"job/{DONE_JOB}", "--tail", "1").output == "three\n"
        assert scene.type("logs", str(DONE_JOB), "--tail", "0").output == ""

    def test_what_a_runner_printed_cannot_move_the_cursor(self, scene: Scene):
        logged(scene, "pods/runner-1", "a\x1b[2Jb\n")
        assert scene.type("logs", "runner-1").output == "a[2Jb\n"

    def test_following_ends_with_the_runner(self, scene: Scene, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("paddock.cli.logs._LOOK_EVERY", 0.01)
        logged(scene, "pods/runner-1", "all of it\n", ended=True)
        outcome = scene.type("logs", "-f", "pod/runner-1")
        assert (outcome.exit_code, outcome.output) == (0, "all of it\n")

    def test_why_there_is_none_is_said(self, scene: Scene):
        outcome = scene.type("logs", "77")
        assert (outcome.exit_code, "there is no job 77" in outcome.output) == (1, True)
        outcome = scene.type("logs", "no-such-pod")
        assert (outcome.exit_code, "there is no Pod no-such-pod" in outcome.output) == (1, True)
        outcome = scene.type("logs", str(JOB))
        assert f"no log is kept of job {JOB}: its runner has printed nothing yet" in outcome.output
        assert scene.type("logs", "machine/blue-1").exit_code == 2


def test_top_shows_macs_with_their_longest_job(scene: Scene):
    change = {"status": {"allocatable": {"tuist.dev/vm": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}}
    scene.cluster.ask(lambda client: client.merge_patch(Node, "blue-1", change, subresource="status"))
    lines = scene.type("top").output.splitlines()
    assert lines[1].split()[:5] == ["blue-1", "yes", "2", "2", "1"]
    assert str(OTHER_JOB) in lines[1]
    assert lines[-1] == "1 Macs, 2 seats: 2 hold a runner, 1 run a job"


@pytest.mark.parametrize(
    "words",
    [
        ("release", "blue-2"),
        ("terminate", "blue-2"),
        ("drain", "blue-1"),
        ("undrain", "blue-1"),
        ("drain", "runner-2"),
        ("detach", "blue-2"),
        ("quarantine", "33333333-3333-4333-8333-333333333333", "--reason", "x"),
    ],
)
def test_a_dry_run_shows_the_plan_changes_nothing_and_succeeds(scene: Scene, words: tuple[str, ...]):
    def look() -> Any:
        async def read(client: Any) -> Any:
            kinds = (ScalewayAppleSiliconMachine, Node)
            return [[o.metadata.resource_version for o in (await client.list(kind)).items] for kind in kinds]

        return scene.cluster.ask(read)

    before = look()
    outcome = scene.type(*words, "--dry-run", "--yes")
    assert outcome.exit_code == 0, outcome.output
    assert "  1. " in outcome.output
    assert outcome.output.endswith("Nothing was changed, because of --dry-run.\n")
    assert look() == before


def test_waiting_for_a_release_ends_when_the_machine_and_its_host_are_done(scene: Scene):
    outcome = scene.type("release", "blue-2", "--yes", "--wait", "--timeout", "30s")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.splitlines()[-1].endswith("machine blue-2 is gone; it had no host")


def test_waiting_for_a_drain_names_who_still_works_and_gives_up_in_time(scene: Scene):
    outcome = scene.type("drain", "blue-1", "--yes", "--wait", "--timeout", "10ms")
    assert outcome.exit_code == 1
    assert "runner-1 still works; 1 idle runner to go" in outcome.output
    assert "it goes on without this command" in outcome.output


async def test_each_new_sentence_is_said_once(capsys: pytest.CaptureFixture[str]):
    steps = iter([Progress("a"), Progress("a"), Progress("b"), Progress("c", done=True)])

    async def look() -> Progress:
        return next(steps)

    assert await waited(look, SteppedClock(), 60.0) is True
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c"]


async def test_an_api_server_that_is_away_for_a_while_ends_no_wait(capsys: pytest.CaptureFixture[str]):
    looks = iter(
        [Progress("a"), TransportError("no answer"), TransportError("no answer"), Progress("c", done=True)],
    )

    async def look() -> Progress:
        seen = next(looks)
        if isinstance(seen, Exception):
            raise seen
        return seen

    assert await waited(look, SteppedClock(), 60.0) is True
    said = capsys.readouterr().out
    assert said.count("cannot look, and tries again: no answer") == 1


async def test_an_api_server_that_stays_away_is_waited_for_until_the_timeout(capsys: pytest.CaptureFixture[str]):
    async def look() -> Progress:
        raise TransportError("no answer")

    assert await waited(look, SteppedClock(), 3.0) is False
    assert "it goes on without this command" in capsys.readouterr().err


def test_the_support_archive_has_everything_but_secrets(scene: Scene, tmp_path: Path):
    scene.ledger.json["leaks"] = [{"sentence": f"token {TOKEN} leaked", "password": "hunter2"}]
    target = tmp_path / "s.tar.gz"
    outcome = scene.type("bundle-support", "--file", str(target))
    assert outcome.exit_code == 0, outcome.output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as archive:
        texts = {
            member.name.removeprefix("paddock-support/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }
    assert {
        "README",
        "about.json",
        "machines.json",
        "pods.json",
        "jobs.json",
        "events.json",
        "doctor.json",
        "metrics.txt",
    } <= set(texts)
    assert "blue-1" in texts["machines.json"]
    everything = "".join(texts.values())
    assert TOKEN not in everything
    assert "hunter2" not in everything
    again = scene.type("bundle-support", "--file", str(target))
    assert (again.exit_code, "File exists" in again.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("postgresql://paddock:hunter2@db/x", "postgresql://[redacted]@db/x"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----", "[redacted]"),
        ("ghp_0123456789abcdefghij", "[redacted]"),
        ("nothing secret", "nothing secret"),
    ],
)
def test_what_looks_like_a_secret_is_struck_out(text: str, kept: str):
    assert redacted_text(text) == kept


def test_what_is_called_like_a_secret_loses_its_value():
    found = redacted(
        {
            "password": "a",
            "jitConfig": "b",
            "secretName": "kept",
            "env": [{"name": "X", "value": "c"}],
            "n": 1,
            "tokens": [{"token": "d"}],
        }
    )
    assert found == {
        "password": "[redacted]", "jitConfig": "[redacted]", "secretName": "kept",
        "env": [{"name": "X", "value": "[redacted]"}], "n": 1, "tokens": [{"token": "[redacted]"}],
    }  # fmt: skip


def test_ssh_believes_one_host_key_and_shows_one_key():
    typed = arguments(Path("/t/key"), Path("/t/known"), "m1@198.18.0.1", 22, ("uptime",))
    assert typed[:3] == ["ssh", "-F", "none"]
    assert {"StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "UserKnownHostsFile=/t/known", "ForwardAgent=no"} <= set(
        typed
    )
    assert typed[-3:] == ["m1@198.18.0.1", "--", "uptime"]


def test_ssh_to_a_mac_that_does_not_show_the_pinned_key_is_refused_and_leaves_no_event(scene: Scene):
    outcome = scene.type("ssh", "blue-2", "--reason", "look")
    assert (outcome.exit_code, "has no machine with an address" in outcome.output) == (1, True)
    assert scene.type("ssh", "blue-1").exit_code == 2, "a reason is asked for"
    outcome = scene.type("ssh", "blue-1", "--reason", "look")
    assert (outcome.exit_code, "the fleet's key is not in Secret" in outcome.output) == (1, True)
    events = scene.cluster.ask(lambda client: client.list(Event))
    assert "ShellOpened" not in {event.reason for event in events.items}


def test_help_shows_every_command_once():
    from paddock.cli import _GROUPS

    grouped = [name for names in _GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    listed = main.list_commands(None)  # type: ignore[arg-type]
    shown = re.findall(r"^  ([a-z][a-z-]+) ", CliRunner().invoke(main, ["--help"]).output, re.MULTILINE)
    assert sorted(shown) == sorted(listed)
