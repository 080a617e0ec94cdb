r"""How a script, its secrets and its upload share one standard input.

    main() { <script>
    }
    { main "$@"; exit "$?"; }
    <first secret>\n
    <second secret>\n
    <upload until the end of the input>

Bash reads its script from a pipe byte by byte and runs a command only once it has read all of it. So the function is
complete before anything runs (a connection that breaks half-way runs nothing at all), the last line is parsed as a whole
before `main` starts, and the input then stands exactly at the first secret. As that line ends in `exit`, nothing that
follows it can ever be run as a command, whether the script read it or not. The script keeps its own line numbers.
"""

import shlex
from collections.abc import AsyncIterator, Sequence

from paddock.base.secrets import Secret
from paddock.clients.ssh.contract import Upload

__all__ = ["command_line", "framed", "input_of"]

_CHUNK = 64 * 1024


def command_line(arguments: Sequence[str]) -> str:
    """What the login shell is asked to run: any shell understands it."""
    for position, argument in enumerate(arguments, 1):
        if "\0" in argument or "\n" in argument:
            raise ValueError(f"argument {position} holds a newline or a NUL: send it as a secret or as the upload")
    return " ".join(["/bin/bash", "-s", "--", *(shlex.quote(argument) for argument in arguments)])


def framed(script: str, secrets: Sequence[Secret]) -> bytes:
    """The head of the input: everything but the upload."""
    if "\0" in script or "\r" in script:
        raise ValueError("the script holds a NUL or a carriage return: save it with plain line ends")
    lines = []
    for position, secret in enumerate(secrets, 1):
        text = secret.reveal()
        if "\n" in text or "\0" in text:
            raise ValueError(
                f"secret {position} holds a newline or a NUL: encode it in base64, or send it as the upload"
            )
        lines.append(text + "\n")
    body = script if script.endswith("\n") else script + "\n"
    return f'main() {{ {body}}}\n{{ main "$@"; exit "$?"; }}\n{"".join(lines)}'.encode()


async def input_of(script: str, secrets: Sequence[Secret], upload: Upload | None) -> AsyncIterator[bytes]:
    """The whole input, in pieces that flow control can hold back."""
    yield framed(script, secrets)
    if upload is None:
        return
    if isinstance(upload, Secret):
        upload = upload.reveal().encode()
    if isinstance(upload, bytes):
        for start in range(0, len(upload), _CHUNK):
            yield upload[start : start + _CHUNK]
        return
    async for piece in upload:
        yield piece
