"""The real kubectl, pointed at one API, in a home of its own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PATIENCE = 180.0


def found_kubectls() -> dict[str, Path]:
    """The kubectl of this machine: the one on PATH, else the one that `make test-kube` builds into the user's cache.

    `PADDOCK_ALL_KUBECTLS=1` runs both: they speak differently, but twice is slow for every run.
    """
    found: dict[str, Path] = {}
    if installed := shutil.which("kubectl"):
        found["installed"] = Path(installed)
        if not os.environ.get("PADDOCK_ALL_KUBECTLS"):
            return found
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "paddock" / "kube"
    for built in sorted(root.glob("*/kubectl"), key=lambda path: path.stat().st_mtime):
        found["built"] = built
    return found


class Kubectl:
    """Runs commands in one namespace. Called like a function it gives what kubectl prints, and fails where that does."""

    def __init__(self, binary: Path, kubeconfig: Path, home: Path, namespace: str) -> None:
        self.namespace = namespace
        self.home = home
        self._binary = binary
        self._kubeconfig = kubeconfig

    def unique(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(4)}"

    def write(self, *objects: Json) -> str:
        """A file with these objects, for `-f`; its path."""
        path = self.home / f"{secrets.token_hex(4)}.yaml"
        # JSON is YAML; without the dashes in front, kubectl takes the whole file for one JSON text.
        path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
        return str(path)

    async def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        out, _ = await self._run(arguments, {code}, environment)
        return out

    async def complaint(self, *arguments: str) -> str:
        """What a command that must fail says about it."""
        _, error = await self._run(arguments, set(range(1, 256)), {})
        return error

    async def said(self, *arguments: str) -> str:
        """What a command that works says beside its output."""
        _, error = await self._run(arguments, {0}, {})
        return error

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """A command that runs on; whoever starts it ends it."""
        return await asyncio.create_subprocess_exec(
            *self._command(arguments),
            env=self._environment({}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def _run(self, arguments: tuple[str, ...], codes: set[int], extra: dict[str, str]) -> tuple[str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command(arguments),
            env=self._environment(extra),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, error = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"kubectl {' '.join(arguments)} took longer than {PATIENCE:.0f} s") from None
        complaint = f"kubectl {' '.join(arguments)}: {process.returncode}\n{out.decode()}\n{error.decode()}"
        assert process.returncode in codes, complaint
        return out.decode(), error.decode()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(self._binary), f"--kubeconfig={self._kubeconfig}", f"--namespace={self.namespace}", *arguments]

    def _environment(self, extra: dict[str, str]) -> dict[str, str]:
        """Nothing of the user's own: no proxy, no kubeconfig, no cache in the home folder."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "TMPDIR": str(self.home), **extra}


def gadget(name: str, spec: Json | None = None, **metadata: Any) -> Json:
    from conformance.target import GROUP

    meta = {"name": name, **metadata} if name else metadata
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": meta, "spec": spec or {}}


def rows(table: str) -> list[list[str]]:
    """The words of every line that kubectl printed, without the heading."""
    return [line.split() for line in table.splitlines()[1:]]
