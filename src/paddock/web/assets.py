"""The files that pages load: few and small, so they are kept in memory, packed once, and named by what is in them.

A page asks for `/static/paddock.css?v=…`, where `v` stands for the content; that answer may be kept for ever, so a browser
asks for each version once. Asked without it, a file is answered and checked again the next time.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from paddock.web.compression import takes_packed

__all__ = ["asset", "serve_asset"]

_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    plain: bytes
    packed: bytes
    version: str
    media_type: str

    @classmethod
    def read(cls, path: Path) -> "_File":
        plain = path.read_bytes()
        version = hashlib.sha256(plain).hexdigest()[:12]
        return cls(plain, gzip.compress(plain, 9, mtime=0), version, _TYPES[path.suffix])


_FILES: Final = {
    path.name: _File.read(path)
    for path in sorted((Path(__file__).parent / "static").iterdir())
    if path.suffix in _TYPES
}


def asset(name: str) -> str:
    """The address of a file, which changes with its content; KeyError for one that is not shipped."""
    return f"/static/{name}?v={_FILES[name].version}"


async def serve_asset(request: Request) -> Response:
    found = _FILES.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    current = request.query_params.get("v") == found.version
    headers = {
        "Cache-Control": _FOR_EVER if current else "no-cache",
        "ETag": f'"{found.version}"',
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if takes_packed(request):
        return Response(found.packed, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(found.plain, media_type=found.media_type, headers=headers)
