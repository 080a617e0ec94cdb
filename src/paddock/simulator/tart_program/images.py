"""Images of a registry that is not there: `pull`, `fqn`, `prune`, and the cache in which they lie."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path

from .store import Store, TartError, Vm, random_mac

__all__ = ["all_images", "cached", "fully_qualified", "is_remote", "prune", "pull"]

_REFERENCE = re.compile(
    r"^(?P<host>[^/]+\.[^/]+|localhost|[^/]+:\d+)/(?P<path>[^:@]+)(?P<what>:[^:@]+|@sha256:[0-9a-f]{64})?$"
)
_FAULTS = {
    "unauthorized": 'Error: AuthFailed(why: "received unexpected HTTP status code 401")',
    "missing": 'Error: UnexpectedHTTPStatusCode(when: "pulling manifest", code: 404, details: "manifest unknown")',
    "reset": 'Error: Error Domain=NSURLErrorDomain Code=-1005 "The network connection was lost."',
}


def is_remote(name: str) -> bool:
    return "/" in name


def _split(image: str) -> tuple[str, str, str]:
    form = _REFERENCE.match(image)
    if form is None:
        raise TartError(f'failed to parse remote name: "{image}"', 64)
    return form["host"], form["path"], form["what"] or ":latest"


def _place(store: Store, image: str) -> Path:
    host, path, what = _split(image)
    return store.cache / host / path / what[1:]


def cached(store: Store, image: str) -> Vm | None:
    """The image in the cache; a tag is a link to its digest."""
    place = _place(store, image)
    return Vm(place.resolve()) if (place / "config.json").exists() else None


def fully_qualified(store: Store, image: str) -> str:
    found = cached(store, image)
    if found is None:
        raise TartError(f'the specified VM "{image}" does not exist', 2)
    host, path, _ = _split(image)
    return f"{host}/{path}@{found.name}"


def pull(store: Store, image: str) -> Vm:
    """Fetch an image unless it is there: one at a time for each host. A tag is asked for each time, and may have moved."""
    host, path, what = _split(image)
    known = store.world.get("images", None)
    entry = {} if known is None else known.get(image)
    if entry is None:
        raise TartError(_FAULTS["missing"])
    digest = (
        what[1:]
        if what.startswith("@")
        else entry.get("digest") or f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    )
    with store.locked(f"pull-{host}"):
        fault = entry.get("fault", "")
        if fault == "stall":
            time.sleep(3600)
        if fault:
            raise TartError(_FAULTS.get(fault, f"Error: {fault}"))
        final = store.cache / host / path / digest
        if not (final / "config.json").exists():
            _fetch(store, final, image, entry)
        if what.startswith(":"):
            link, part = final.parent / what[1:], final.parent / f".{os.getpid()}.link"
            part.symlink_to(digest)
            part.rename(link)
        os.utime(final)
    return Vm(final)


def _fetch(store: Store, final: Path, image: str, entry: dict) -> None:
    """A folder that the image names, its disk as long as the image from the first moment and full of holes: a pull that was
    killed is gone on with, unless another command has cleared it away.
    """
    part = store.tmp / hashlib.md5(image.encode(), usedforsecurity=False).hexdigest()
    part.mkdir(exist_ok=True)
    held = os.open(part, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # another command must not clear it away
    try:
        _download(part / "disk.img", float(entry.get("seconds", 0)), int(float(entry.get("size", 20.0)) * 10**9))
        config = {"version": 1, "os": "darwin", "arch": "arm64", "cpuCount": 4, "memorySize": 8192 << 20}
        config |= {"macAddress": random_mac(), "diskSize": 50, "simulatedSize": float(entry.get("size", 20.0))}
        (part / "config.json").write_text(json.dumps(config))
        (part / "nvram.bin").touch()
        if entry.get("disk"):
            shutil.copytree(entry["disk"], part / "disk", symlinks=True)
        final.parent.mkdir(parents=True, exist_ok=True)
        part.rename(final)
    finally:
        os.close(held)


def _download(path: Path, seconds: float, size: int) -> None:
    """One block each twentieth of a second, of as many as the seconds have; then nothing stays but an empty file."""
    blocks = round(seconds * 20)
    with path.open("r+b" if path.exists() else "wb") as disk:
        disk.truncate(size)
        for number in range(os.fstat(disk.fileno()).st_blocks // 8, blocks):
            disk.seek(number * 4096)
            disk.write(b"x" * 4096)
            disk.flush()
            time.sleep(0.05)
        disk.truncate(0)


def all_images(store: Store) -> list[tuple[str, Vm]]:
    """Every name in the cache, digests and tags."""
    found: list[tuple[str, Vm]] = []
    for config in sorted(store.cache.rglob("config.json")):
        path = config.parent.parent.relative_to(store.cache)
        found.append((f"{path}@{config.parent.name}", Vm(config.parent)))
        tags = (link for link in sorted(config.parent.parent.iterdir()) if link.is_symlink())
        found += [(f"{path}:{tag.name}", Vm(config.parent)) for tag in tags if tag.resolve() == config.parent.resolve()]
    return found


def prune(store: Store, *, older_than_days: float | None, budget_gb: float | None) -> None:
    """Remove images of the cache: those unused for so long, or the least recently used ones above a budget."""
    images = sorted({vm.folder: vm for _, vm in all_images(store)}.values(), key=lambda vm: vm.folder.stat().st_mtime)
    total = sum(vm.size() for vm in images)
    for vm in images:
        old = older_than_days is not None and time.time() - vm.folder.stat().st_mtime >= older_than_days * 86400
        over = budget_gb is not None and total > budget_gb
        if not old and not over:
            continue
        total -= vm.size()
        for link in list(vm.folder.parent.iterdir()):
            if link.is_symlink() and link.resolve() == vm.folder.resolve():
                link.unlink()
        shutil.rmtree(vm.folder)
