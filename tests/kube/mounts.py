"""What a kubelet gives a container beside its arguments: variables and files out of Secrets, kept current."""

import asyncio
from pathlib import Path
from typing import Any

from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError

Json = dict[str, Any]


class Mounts:
    """The Secret volumes of one Pod of a Deployment, in folders of their own. `keep` follows the Secrets until cancelled."""

    def __init__(self, client: Client, namespace: str, pod: Json, folder: Path) -> None:
        self._client = client
        self._namespace = namespace
        [container] = pod["containers"]
        self._container = container
        self._sources = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
        self._folders = {
            mount["mountPath"]: folder / mount["name"]
            for mount in container["volumeMounts"]
            if mount["name"] in self._sources
        }

    def local(self, text: str) -> str:
        """An argument or a value whose path is inside the container, with the path that it has here."""
        for mounted, folder in self._folders.items():
            text = text.replace(f"{mounted}/", f"{folder}/")
        return text

    async def variables(self) -> dict[str, str]:
        found = {}
        for each in self._container.get("env", ()):
            if "value" in each:
                found[each["name"]] = self.local(each["value"])
                continue
            wanted = each["valueFrom"]["secretKeyRef"]
            secret = await self._client.get(SecretObject, wanted["name"], self._namespace)
            if wanted["key"] in secret.data or not wanted.get("optional"):
                found[each["name"]] = secret.data[wanted["key"]].decode()
        return found

    async def put(self) -> None:
        """The files as the Secrets are now; a Secret that is optional may be missing."""
        for name, source in self._sources.items():
            folder = next(folder for folder in self._folders.values() if folder.name == name)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                secret = await self._client.get(SecretObject, source["secretName"], self._namespace)
            except NotFoundError:
                assert source.get("optional"), f"a kubelet would not start this Pod: there is no {source['secretName']}"
                continue
            for item in source["items"]:
                file, draft = folder / item["path"], folder / f".{item['path']}"
                draft.write_bytes(secret.data[item["key"]])
                draft.replace(file)

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            try:
                await self.put()
            except KubeError:
                continue  # the API server is being killed
