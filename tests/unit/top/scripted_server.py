"""`ScriptedServer`: an admin port that sends given documents, in a thread of the test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from paceline.runtime.gateway.live_view.documents import render_history, render_update
from paceline.runtime.gateway.live_view.history import History
from paceline.runtime.gateway.live_view.values import (
    Event,
    FleetView,
    GovernorView,
    Percentiles,
    ReplicaView,
    Snapshot,
    TrafficView,
)


def snapshot(number: int, num_replicas: int = 2, name: str = "engine") -> Snapshot:
    """A snapshot whose draft length is its number."""
    governor = GovernorView(policy="goodput", settled_length=number, ceiling=8)
    replicas = tuple(
        ReplicaView(
            name=f"{name}-{index}", state="ready", reason="", breaker="closed", num_in_flight=3,
            draft_length=number, accepted_fraction=0.75, tokens_per_s=120.0, governor=governor,
        )
        for index in range(num_replicas)
    )  # fmt: skip
    traffic = TrafficView(
        num_in_flight=6, num_waiting=1, requests_per_s=5.0, failed_per_s=0.0,
        ttft=Percentiles(20.0, 30.0, 1500.0),
    )  # fmt: skip
    return Snapshot(
        1_800_000_000.0 + number, replicas, traffic, FleetView(float(number), 0.75, 240.0)
    )


def history(*snapshots: Snapshot, events: Sequence[Event] = ()) -> History:
    made = History()
    for one in snapshots:
        made.add(one, [])
    made.events.extend(events)
    return made


class ScriptedServer:
    """Set the attributes to choose its answers."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.history = history(snapshot(1), snapshot(2))
        self.num_updates = 0
        """Updates that a stream sends, 20 ms apart, before it waits or ends."""
        self.skips_an_update = False
        self.keeps_streams_open = True
        self.raw: tuple[int, bytes] | None = None
        """Sent instead of everything else."""
        self.key: str | None = None
        self.redirects_to: str | None = None
        """URL of another server."""
        self.num_requests = 0
        self.num_streams = 0
        self.is_stopping = threading.Event()

    def events(self) -> Iterator[bytes]:
        self.num_streams += 1
        yield _event("history", render_history(self.history))
        for step in range(self.num_updates):
            time.sleep(0.02)  # sleep: updates may come at any pace
            update = self.history.add(snapshot(3 + step), [])
            if not (self.skips_an_update and step == 0):
                yield _event("update", render_update(update))
        while self.keeps_streams_open and not self.is_stopping.wait(1.0):
            yield b": the client's time limit begins again\n\n"


def _event(name: str, document: Mapping[str, Any]) -> bytes:
    return f"event: {name}\nid: x-1\ndata: {json.dumps(document)}\n\n".encode()


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.num_requests += 1
            if server.redirects_to is not None:
                self.send_response(302)
                self.send_header("location", f"{server.redirects_to}{self.path}")
                self.send_header("content-length", "0")
                self.end_headers()
            elif server.raw is not None:
                self._send(*server.raw)
            elif server.key and self.headers["authorization"] != f"Bearer {server.key}":
                self._send(401, b'{"error": {"message": "no API key"}}')
            elif self.path == "/dashboard/state":
                self._send(200, json.dumps(render_history(server.history)).encode())
            else:
                self.send_response(200)
                self.end_headers()
                for event in server.events():
                    self.wfile.write(event)
                    self.wfile.flush()

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Stay quiet."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    server = ScriptedServer(listener.server_address[1])
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.is_stopping.set()
        listener.shutdown()
        listener.server_close()
        thread.join()
