"""`/health` and `/ready`: the answers, and the application of the probe port, which has only them.

A flood of connections to the data port cannot keep a probe out of a port of its own.
"""

from __future__ import annotations

import uuid

from paceline.runtime.gateway.http.asgi import Message, Receive, Scope, Send
from paceline.runtime.gateway.http.errors import method_not_allowed, not_found, unavailable
from paceline.runtime.gateway.http.protocol import CLOSE
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.replicas import ReplicaSource, explain_unready

PROBE_PATHS = (b"/health", b"/ready")


class ProbeApp:
    """The probe port. Every answer ends its connection."""

    def __init__(self, source: ReplicaSource, retry_after_s: int) -> None:
        self._source = source
        self._retry_after_s = retry_after_s
        self.is_stopping = False
        """Set when the gateway drains: `/ready` then sends clients elsewhere."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append(CLOSE)
            await send(message)

        reply = ClientResponse(send_and_close, uuid.uuid4().hex)
        if scope["raw_path"] in PROBE_PATHS:
            await self.answer(scope, reply)
        else:
            await reply.problem(not_found(scope["path"]))

    async def answer(self, scope: Scope, reply: ClientResponse) -> None:
        """The answer on one of `PROBE_PATHS`. `/health`: this process answers. `/ready`: a replica
        can serve, and the gateway does not stop; else a 503."""
        if scope["method"] not in ("GET", "HEAD"):
            await reply.problem(method_not_allowed(scope["method"], scope["path"], "GET, HEAD"))
            return
        if scope["path"] == "/health":
            await reply.whole(200, b'{"status":"alive"}')
            return
        replicas = self._source.replicas()
        num_ready = sum(replica.state == "ready" for replica in replicas)
        if num_ready and not self.is_stopping:
            body = b'{"status":"ready","replicas":%d,"ready":%d}' % (len(replicas), num_ready)
            await reply.whole(200, body)
            return
        reason = "The server is stopping." if self.is_stopping else explain_unready(replicas)
        await reply.problem(unavailable(reason, self._retry_after_s))
