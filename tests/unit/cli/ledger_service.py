"""A small stand-in for the dispatch service: it serves the JSON that a test puts into it, and 404 for the rest."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LedgerService:
    def __init__(self, url: str) -> None:
        self.url = url
        self.json: dict[str, Any] = {}
        """By path below /api/v1, without the query."""
        self.text: dict[str, str] = {"/healthz": "ok"}
        self.asked: list[str] = []
        """What was read below /api/v1, with its query."""
        self.refuses: dict[str, str] = {}
        """By path below /api/v1: the sentence that it answers with, beside a 400."""
        self.broken = False
        self.posted: list[dict[str, Any]] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []
        """To what is posted, one each: status and body; the last is given again."""


@contextmanager
def running_ledger() -> Iterator[LedgerService]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            below = path.removeprefix("/api/v1/")
            service.asked.append(self.path.removeprefix("/api/v1/"))
            if path in service.text:
                self._answer(200, service.text[path].encode())
            elif service.broken:
                self._answer(503, b"{}")
            elif below in service.refuses:
                said = {"error": service.refuses[below], "reason": "bad_field"}
                self._answer(400, json.dumps(said, separators=(",", ":")).encode())
            elif path.startswith("/api/v1/") and below in service.json:
                self._answer(200, json.dumps(service.json[below]).encode())
            else:
                self._answer(404, b"{}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            service.posted.append({"path": self.path, **json.loads(body)})
            status, told = service.answers[0] if len(service.answers) == 1 else service.answers.pop(0)
            self._answer(status, json.dumps(told).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = LedgerService(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
