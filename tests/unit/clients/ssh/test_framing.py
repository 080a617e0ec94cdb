"""One standard input for a script, its secrets and its upload: checked with the shell that will read it."""

import subprocess

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh.framing import command_line, framed, input_of


def run(script: str, *, arguments=(), secrets=(), upload: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", command_line(arguments)],
        input=framed(script, secrets) + upload,
        capture_output=True,
        timeout=20,
        check=False,
    )


def test_arguments_arrive_as_they_were_whatever_they_contain():
    awkward = ["a b", "it's", '"', "$HOME", "`id`", "*", "", "-n", "ä"]
    done = run('for word in "$@"; do printf "[%s]" "$word"; done', arguments=awkward)
    assert done.stdout.decode() == "".join(f"[{word}]" for word in awkward)


def test_secrets_are_read_line_by_line_and_the_upload_follows():
    done = run(
        'IFS= read -r first\nIFS= read -r second\nprintf "%s|%s|" "$first" "$second"\ncat',
        secrets=[Secret("  spaces and \\ stay  "), Secret("'\"$(id)")],
        upload=b"\x00\x01rest\n",
    )
    assert done.stdout == b"  spaces and \\ stay  |'\"$(id)|\x00\x01rest\n"


def test_what_the_script_does_not_read_is_never_run():
    done = run("echo start", secrets=[Secret("echo leaked")], upload=b"echo leaked too\n")
    assert done.stdout == b"start\n"
    assert done.returncode == 0


def test_the_status_of_the_script_is_the_status_of_the_command():
    assert run("exit 7").returncode == 7
    assert run("false").returncode == 1
    assert run("set -e\nfalse\necho never").returncode == 1
    assert run("return 3").returncode == 3


def test_a_script_that_arrives_by_half_does_nothing():
    whole = framed("touch /nonexistent-folder/x; echo one\necho two\n", [])
    for cut in range(0, len(whole) - 30, 7):
        done = subprocess.run(
            ["/bin/bash", "-s", "--"], input=whole[:cut], capture_output=True, timeout=20, check=False
        )
        assert b"one" not in done.stdout


def test_errors_of_the_shell_name_the_lines_of_the_script():
    done = run("true\ntrue\nno_such_command_here")
    assert b"line 3" in done.stderr


def test_here_documents_and_functions_of_the_script_work():
    done = run("greet() { cat <<'EOT'\nhello } there\nEOT\n}\ngreet")
    assert done.stdout == b"hello } there\n"


def test_a_secret_of_several_lines_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"secret 2 holds a newline.*base64.*upload") as caught:
        framed("true", [Secret("fine"), Secret("two\nlines")])
    assert "lines" not in str(caught.value).replace("newline", "")


def test_an_argument_with_a_newline_is_refused():
    with pytest.raises(ValueError, match="argument 1 holds a newline"):
        command_line(["a\nb"])


def test_a_script_with_carriage_returns_is_refused():
    with pytest.raises(ValueError, match="plain line ends"):
        framed("true\r\n", [])


def test_neither_script_nor_secret_is_in_the_command_line():
    assert command_line(["host-1"]) == "/bin/bash -s -- host-1"


async def test_an_upload_may_come_in_pieces():
    async def pieces():
        for piece in (b"one", b"two"):
            yield piece

    received = b"".join([piece async for piece in input_of("cat", [], pieces())])
    assert received.endswith(b"onetwo")


async def test_a_secret_may_be_the_upload():
    received = b"".join([piece async for piece in input_of("cat", [], Secret("of\nlines"))])
    assert received.endswith(b"of\nlines")
