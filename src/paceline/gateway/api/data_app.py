"""Which requests does the data port answer, and how?

The allow-list of paths and methods, and the way of one request: read, check, choose a replica,
lease it, exchange. A plain ASGI application.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time
import uuid
from urllib.parse import unquote_to_bytes

import msgspec

from paceline.gateway.admission import AdmissionQueues, Overloaded, RefusalReason
from paceline.gateway.api.deadline import Deadline, deadline_of
from paceline.gateway.http.asgi import Receive, Scope, Send, header
from paceline.gateway.http.body import ClientGone, check_headers, read_body
from paceline.gateway.http.errors import (
    INTERNAL,
    STOPPING,
    Refusal,
    deadline_exceeded,
    method_not_allowed,
    model_not_found,
    not_found,
    unavailable,
)
from paceline.gateway.http.response import ClientResponse, run_while_connected
from paceline.gateway.keys.access import DataAccess
from paceline.gateway.keys.ring import Tenant
from paceline.gateway.metrics.metrics import RequestTimes
from paceline.gateway.outcomes import Outcome
from paceline.gateway.peers import PeerWorkers
from paceline.gateway.proxy.journey import GatewayServices, Journey
from paceline.gateway.replicas import (
    Replica,
    ReplicaSource,
    explain_unready,
    longest_context,
    num_slots_of,
)
from paceline.gateway.requests.routes import ROUTES, Route
from paceline.gateway.requests.validation import CheckedRequest, check_context, check_request
from paceline.gateway.routing.capabilities import can_serve, explain_unserved
from paceline.gateway.settings import GatewaySettings

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
        services: GatewayServices,
        peers: PeerWorkers,
    ) -> None:
        self._settings = settings
        self._source = source
        self._services = services
        self._router = services.router
        self._metrics = services.metrics
        self._access = DataAccess(settings)
        self.admissions = AdmissionQueues(
            settings.admission,
            lambda model: num_slots_of(self._router.open_to(model), settings.admission),
            services.metrics,
            peers,
        )
        self._started_at_s = int(time.time())
        self.is_stopping = False
        """Set when the gateway drains: `/ready` then sends clients elsewhere."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope)
        path, method = scope["raw_path"], scope["method"]
        route = _ROUTES.get(path)
        reply = ClientResponse(
            send, request_id, names_events=route is not None and route.names_events
        )
        if route is not None and method == "POST":
            await self._answer(route, request_id, scope, receive, reply)
        elif route is not None:
            await reply.problem(method_not_allowed(method, route.path, "POST"))
        elif path not in (_MODELS, b"/health", b"/ready") and not _is_of_one_model(path):
            await reply.problem(not_found(scope["path"]))
        elif method not in ("GET", "HEAD"):
            await reply.problem(method_not_allowed(method, scope["path"], "GET, HEAD"))
        elif path.startswith(_MODELS):
            await self._answer_models(scope, reply)
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
        reply: ClientResponse,
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
        self, route: Route, request_id: str, scope: Scope, receive: Receive, reply: ClientResponse
    ) -> Outcome:
        tenant = self._access.authenticate(scope)
        check_headers(scope, self._settings)
        deadline = Deadline(deadline_of(scope, self._settings.admission))
        body = await read_body(receive, self._settings)
        times = RequestTimes(self._metrics)
        request = check_request(route, body, self._settings, tenant)
        self._check_served(request)
        work = self._answer_in_time(request, tenant, request_id, reply, times, deadline)
        outcome = await run_while_connected(work, receive)
        return Outcome.CLIENT_GONE if outcome is None else outcome

    def _check_served(self, request: CheckedRequest) -> None:
        """Refuse what no replica of the fleet could answer, now or later."""
        replicas = self._router.of_model(request.model)
        if not replicas:
            if any(not replica.model for replica in self._source.replicas()):
                reason = "A replica has not said yet which model it serves; it may be this one."
                raise Refusal(
                    unavailable(reason, self._settings.retry_after_s), Outcome.UNAVAILABLE
                )
            raise model_not_found(request.model, self._model_ids())
        check_context(request, longest_context(replicas))
        if not any(can_serve(replica, request.needs) for replica in replicas):
            raise Refusal(explain_unserved(request.needs))

    async def _answer_in_time(
        self,
        request: CheckedRequest,
        tenant: Tenant | None,
        request_id: str,
        reply: ClientResponse,
        times: RequestTimes,
        deadline: Deadline,
    ) -> Outcome:
        """Wait to be let in, choose where to begin, and go on the journey."""
        self._choose(request)  # refused at once when nobody could serve it now
        engine_fields = functools.partial(self._access.engine_fields, tenant)
        journey = Journey(self._services, request, request_id, reply, times, engine_fields)
        try:
            async with (
                asyncio.timeout_at(deadline.at_s),
                self.admissions.of(request.model).slot(deadline.left_s()),
            ):
                times.sent_upstream(request.num_choices)
                return await journey.run(self._choose(request))
        except TimeoutError:
            await reply.problem(deadline_exceeded(deadline.given_s))
            return Outcome.EXPIRED
        except Overloaded as overloaded:
            if overloaded.reason is RefusalReason.NO_REPLICA:
                raise self._unready(request) from None
            raise Refusal(overloaded.problem, Outcome.OVERLOADED) from None

    def _choose(self, request: CheckedRequest) -> Replica:
        replica = self._router.choose(request.model, request.needs)
        if replica is None:
            raise self._unready(request)
        return replica

    def _unready(self, request: CheckedRequest) -> Refusal:
        reason = explain_unready(self._router.of_model(request.model))
        return Refusal(unavailable(reason, self._settings.retry_after_s), Outcome.UNAVAILABLE)

    async def _answer_ready(self, reply: ClientResponse) -> None:
        replicas = self._source.replicas()
        num_ready = sum(replica.state == "ready" for replica in replicas)
        if num_ready and not self.is_stopping:
            await reply.whole(
                200, b'{"status":"ready","replicas":%d,"ready":%d}' % (len(replicas), num_ready)
            )
            return
        reason = "The server is stopping." if self.is_stopping else explain_unready(replicas)
        await reply.problem(unavailable(reason, self._settings.retry_after_s))

    async def _answer_models(self, scope: Scope, reply: ClientResponse) -> None:
        """All of them, or the one that the path names."""
        try:
            self._access.authenticate(scope)
        except Refusal as refusal:
            await reply.problem(refusal.problem)
            return
        model, known = scope["path"][len(_MODEL) :], self._model_ids()
        if not model:
            await reply.whole(200, self._models())
        elif model in known:
            await reply.whole(200, msgspec.json.encode(self._describe(model)))
        else:
            await reply.problem(model_not_found(model, known).problem)

    def _model_ids(self) -> list[str]:
        return sorted({replica.model for replica in self._source.replicas() if replica.model})

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


def _is_of_one_model(path: bytes) -> bool:
    """Model ids may hold slashes, but are no way round the list: no part is made of dots."""
    if not path.startswith(_MODEL):
        return False
    parts = unquote_to_bytes(path[len(_MODEL) :]).split(b"/")
    return all(part.strip(b".") for part in parts)


def _request_id(scope: Scope) -> str:
    """The client's own id where it is short and safe to log, else a new one."""
    given = header(scope, b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return uuid.uuid4().hex
