"""`/health` and `/ready`: the answers, and the application of the probe port, which has only them.

A flood of connections to the data port cannot keep a probe out of a port of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from paceline.gateway.http.asgi import Message, Receive, Scope, Send
from paceline.gateway.http.errors import method_not_allowed, not_found, unavailable
from paceline.gateway.http.protocol import CLOSE
from paceline.gateway.http.response import ClientResponse
from paceline.gateway.replicas import Replica, ReplicaSource, explain_unready

HEALTH, READY = b"/health", b"/ready"


async def answer_health(reply: ClientResponse) -> None:
    """This process answers."""
    await reply.whole(200, b'{"status":"alive"}')


async def answer_ready(
    reply: ClientResponse, replicas: Sequence[Replica], *, is_stopping: bool, retry_after_s: int
) -> None:
    """A replica can serve, and the gateway does not stop; else a 503."""
    num_ready = sum(replica.state == "ready" for replica in replicas)
    if num_ready and not is_stopping:
        body = b'{"status":"ready","replicas":%d,"ready":%d}' % (len(replicas), num_ready)
        await reply.whole(200, body)
        return
    reason = "The server is stopping." if is_stopping else explain_unready(replicas)
    await reply.problem(unavailable(reason, retry_after_s))


class ProbeApp:
    """The probe port. Every answer ends its connection."""

    def __init__(self, source: ReplicaSource, retry_after_s: int) -> None:
        self._source = source
        self._retry_after_s = retry_after_s
        self.is_stopping = False
        """Set when the gateway drains."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append(CLOSE)
            await send(message)

        path, method = scope["raw_path"], scope["method"]
        reply = ClientResponse(send_and_close, uuid.uuid4().hex)
        if path not in (HEALTH, READY):
            await reply.problem(not_found(scope["path"]))
        elif method not in ("GET", "HEAD"):
            await reply.problem(method_not_allowed(method, scope["path"], "GET, HEAD"))
        elif path == HEALTH:
            await answer_health(reply)
        else:
            await answer_ready(
                reply,
                self._source.replicas(),
                is_stopping=self.is_stopping,
                retry_after_s=self._retry_after_s,
            )
