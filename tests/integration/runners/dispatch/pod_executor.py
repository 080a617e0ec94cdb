"""What a kubelet does with a rendered Linux Pod, as far as command lines are concerned: it really runs them.

Init containers run one after the other, then the container; each sees its own environment and nothing of ours, and only
the volumes that it mounts, which are folders here. A path that a container does not mount leads nowhere.
"""

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Ended", "PodExecutor"]

_OURS = Path(sys.executable).parent


@dataclass(frozen=True)
class Ended:
    """How a Pod ended: each container's exit code and output, in the order in which they ran."""

    codes: dict[str, int]
    output: dict[str, str]
    arguments: dict[str, list[str]]

    @property
    def phase(self) -> str:
        return "Succeeded" if not any(self.codes.values()) else "Failed"


@dataclass
class PodExecutor:
    """One Pod's volumes below `root`, and its containers' commands. `files` are those of the runner's image."""

    root: Path
    pod: dict[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)

    def volume(self, name: str) -> Path:
        folder = self.root / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_token(self, token: str) -> None:
        path = self.volume("tuist-runner-token") / "token"
        path.write_text(token, encoding="utf-8")
        path.chmod(0o400)

    async def run(self) -> Ended:
        ended = Ended({}, {}, {})
        spec = self.pod["spec"]
        # restartPolicy Never: the first init container that fails ends the Pod.
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            code = await self._run(container, ended)
            if code:
                break
        return ended

    async def _run(self, container: dict[str, Any], ended: Ended) -> int:
        name = container["name"]
        image = self.root / "images" / name
        for path, text in self.files.items():
            file = image / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755)
        env = {each["name"]: self._value(each) for each in container["env"]}
        places = {mount["mountPath"]: self.volume(mount["name"]) for mount in container["volumeMounts"]}
        command = [*container["command"], *container.get("args", ())]
        ended.arguments[name] = command
        process = await asyncio.create_subprocess_exec(
            *(self._here(part, places, image) for part in command),
            env={"PATH": f"{_OURS}:/usr/bin:/bin", "HOME": "/tmp"}
            | {key: self._here(value, places, image) for key, value in env.items()},
            cwd=image if image.is_dir() else self.root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), 60)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        ended.output[name] = out.decode()
        ended.codes[name] = process.returncode or 0
        return ended.codes[name]

    def _value(self, env: dict[str, Any]) -> str:
        if "value" in env:
            return env["value"]
        path = env["valueFrom"]["fieldRef"]["fieldPath"].split(".")
        found: Any = self.pod
        for part in path:
            found = found[part]
        return found

    def _here(self, text: str, places: Mapping[str, Path], image: Path) -> str:
        """The container's absolute paths as folders of this machine; what is neither mounted nor of the image stays away."""

        def place(found: re.Match[str]) -> str:
            path = found[0]
            mounted = max((each for each in places if path == each or path.startswith(f"{each}/")), key=len, default="")
            if mounted:
                return f"{places[mounted]}{path[len(mounted) :]}"
            return f"{image}{path}"

        return re.sub(r"/(?:var/run|home/runner)[\w./-]*", place, text)
