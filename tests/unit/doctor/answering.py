"""A server that gives one fixed answer per path, for what a doctor may be pointed at by mistake."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answers:
    """What the server answers, and what it was asked."""

    by_path: Mapping[str, tuple[int, bytes]]
    """Status and body; 404 for other paths."""
    url: str = ""
    requests: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextlib.contextmanager
def answering(by_path: Mapping[str, tuple[int, bytes]]) -> Iterator[Answers]:
    """Serve until the context ends."""
    answers = Answers(by_path)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            answers.requests.append(f"{self.command} {self.path}")
            answers.keys.append(self.headers.get("authorization"))
            status, body = answers.by_path.get(self.path, (404, b'{"detail": "Not Found"}'))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that has read enough is gone
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
