"""Which requests does the data port answer, and how?

The allow-list of paths and methods, and the way of one request: read, check, choose a replica,
lease it, exchange. A plain ASGI application.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid

import msgspec

from paceline.gateway.asgi import Receive, Scope, Send, header
from paceline.gateway.body import ClientGone, check_headers, read_body
from paceline.gateway.checks import check_context, check_request
from paceline.gateway.errors import (
    INTERNAL,
    STOPPING,
    Refusal,
    method_not_allowed,
    model_not_found,
    not_found,
    unavailable,
)
from paceline.gateway.exchange import Exchange
from paceline.gateway.lease import Ledger
from paceline.gateway.metrics import GatewayMetrics, RequestTimes
from paceline.gateway.outcomes import Outcome
from paceline.gateway.replicas import (
    ReplicaSource,
    choose_replica,
    explain_unready,
    longest_context,
)
from paceline.gateway.reply import Reply, run_while_connected
from paceline.gateway.routes import ROUTES, Route
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.upstream import Upstreams

logger = logging.getLogger(__name__)

_ROUTES = {route.path.encode(): route for route in ROUTES}
_MODELS = b"/v1/models"
_MODEL = b"/v1/models/"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


class DataApp:
    """The data port."""

    def __init__(
        self,
        settings: GatewaySettings,
        source: ReplicaSource,
        upstreams: Upstreams,
        ledger: Ledger,
        metrics: GatewayMetrics,
    ) -> None:
        self._settings = settings
        self._source = source
        self._upstreams = upstreams
        self._ledger = ledger
        self._metrics = metrics
        self._started_at_s = int(time.time())
        self.is_stopping = False
        """Set when the gateway drains: `/ready` then sends clients elsewhere."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope)
        path, method = scope["raw_path"], scope["method"]
        route = _ROUTES.get(path)
        reply = Reply(send, request_id, names_events=route is not None and route.names_events)
        if route is not None and method == "POST":
            await self._answer(route, request_id, scope, receive, reply)
        elif route is not None:
            await reply.problem(method_not_allowed(method, route.path, "POST"))
        elif path not in (_MODELS, b"/health", b"/ready") and not path.startswith(_MODEL):
            await reply.problem(not_found(scope["path"]))
        elif method not in ("GET", "HEAD"):
            await reply.problem(method_not_allowed(method, scope["path"], "GET, HEAD"))
        elif path == _MODELS:
            await reply.whole(200, self._models())
        elif path.startswith(_MODEL):
            await self._answer_model(scope["path"].removeprefix(_MODEL.decode()), reply)
        elif path == b"/health":
            await reply.whole(200, b'{"status":"alive"}')
        else:
            await self._answer_ready(reply)

    async def _answer(
        self,
        route: Route,
        request_id: str,
        scope: Scope,
        receive: Receive,
        reply: Reply,
    ) -> None:
        outcome = Outcome.INTERNAL_ERROR
        try:
            outcome = await self._serve(route, request_id, scope, receive, reply)
        except ClientGone:
            outcome = Outcome.CLIENT_GONE
        except Refusal as refusal:
            outcome = refusal.outcome
            if refusal.problem.closes_connection:
                await reply.problem_before_body(refusal.problem, receive)
            else:
                await reply.problem(refusal.problem)
        except asyncio.CancelledError:
            outcome = Outcome.SHUT_DOWN
            await reply.problem(STOPPING)
            raise
        except Exception:
            logger.exception("request %s: fault in the gateway", request_id)
            await reply.problem(INTERNAL)
        finally:
            self._metrics.request_ended(outcome)

    async def _serve(
        self, route: Route, request_id: str, scope: Scope, receive: Receive, reply: Reply
    ) -> Outcome:
        check_headers(scope, self._settings)
        body = await read_body(receive, self._settings)
        times = RequestTimes(self._metrics)
        request = check_request(route, body, self._settings)
        replicas = [r for r in self._source.replicas() if r.model == request.model]
        if not replicas:
            raise model_not_found(request.model, self._model_ids())
        check_context(request, longest_context(replicas))
        replica = choose_replica(replicas, self._ledger.num_in_flight)
        if replica is None:
            raise Refusal(
                unavailable(explain_unready(replicas), self._settings.retry_after_s),
                Outcome.UNAVAILABLE,
            )
        async with self._ledger.lease(replica) as lease:
            times.sent_upstream(request.num_choices)
            exchange = Exchange(
                request, request_id, lease, reply, self._upstreams, times, self._settings
            )
            if not await run_while_connected(exchange.run(), receive):
                lease.end(Outcome.CLIENT_GONE)
        return lease.outcome or Outcome.INTERNAL_ERROR

    async def _answer_ready(self, reply: Reply) -> None:
        replicas = self._source.replicas()
        num_ready = sum(replica.state == "ready" for replica in replicas)
        if num_ready and not self.is_stopping:
            await reply.whole(
                200, b'{"status":"ready","replicas":%d,"ready":%d}' % (len(replicas), num_ready)
            )
            return
        reason = "The server is stopping." if self.is_stopping else explain_unready(replicas)
        await reply.problem(unavailable(reason, self._settings.retry_after_s))

    async def _answer_model(self, model: str, reply: Reply) -> None:
        known = self._model_ids()
        if model in known:
            await reply.whole(200, msgspec.json.encode(self._describe(model)))
        else:
            await reply.problem(model_not_found(model, known).problem)

    def _model_ids(self) -> list[str]:
        return sorted({replica.model for replica in self._source.replicas()})

    def _models(self) -> bytes:
        """Our own list: the engine's shows the paths of its files."""
        data = [self._describe(model) for model in self._model_ids()]
        return msgspec.json.encode({"object": "list", "data": data})

    def _describe(self, model: str) -> dict[str, object]:
        replicas = [r for r in self._source.replicas() if r.model == model]
        return {
            "id": model,
            "object": "model",
            "created": self._started_at_s,
            "owned_by": "paceline",
            "max_model_len": longest_context(replicas),
        }


def _request_id(scope: Scope) -> str:
    """The client's own id where it is short and safe to log, else a new one."""
    given = header(scope, b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return uuid.uuid4().hex
