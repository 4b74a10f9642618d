"""`DataApp`: the data port as a plain ASGI application, an allow-list of paths and methods.

Requests that an engine answers go to a `RequestRunner`; the rest is answered here.
"""

from __future__ import annotations

import re
import time
import uuid
from urllib.parse import unquote_to_bytes

import msgspec

from paceline.runtime.gateway.api.cross_origin import CrossOrigin
from paceline.runtime.gateway.api.near_paths import path_not_served
from paceline.runtime.gateway.api.probe_app import PROBE_PATHS, ProbeApp
from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, header
from paceline.runtime.gateway.http.errors import (
    Refusal,
    method_not_allowed,
    model_not_found,
)
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.proxy.request_runner import RequestRunner
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.replicas import longest_context, model_ids, of_model
from paceline.runtime.gateway.requests.routes import ROUTES

_ROUTES = {route.path.encode(): route for route in ROUTES}
_MODELS = b"/v1/models"
_MODEL = b"/v1/models/"
_PATHS = (*(route.path for route in ROUTES), _MODELS.decode())
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


class DataApp:
    """The data port."""

    def __init__(self, services: GatewayServices) -> None:
        self._services = services
        self._source = services.source
        self._started_at_s = int(time.time())
        self._cross_origin = CrossOrigin(services.settings.allowed_origins)
        self.probes = ProbeApp(self._source, services.settings.retry_after_s)
        """Answers `/health` and `/ready`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope)
        path, method = scope["raw_path"], scope["method"]
        route = _ROUTES.get(path)
        if self._cross_origin.allows(scope):
            send = self._cross_origin.with_headers(scope, send)
        reply = ClientResponse(
            send, request_id, names_events=route is not None and route.names_events
        )
        if route is not None and method == "POST":
            await RequestRunner(self._services, route, request_id, scope, receive, reply).run()
        elif self._is_of_api(path) and self._cross_origin.is_preflight(scope):
            await self._answer_preflight(scope, reply, "POST" if route else "GET, HEAD")
        elif route is not None:
            await reply.problem(method_not_allowed(method, route.path, "POST"))
        elif path in PROBE_PATHS:
            await self.probes.answer(scope, reply)
        elif not self._is_of_api(path):
            await reply.problem(path_not_served(scope["path"], _PATHS))
        elif method not in ("GET", "HEAD"):
            await reply.problem(method_not_allowed(method, scope["path"], "GET, HEAD"))
        else:
            await self._answer_models(scope, reply)

    @staticmethod
    def _is_of_api(path: bytes) -> bool:
        return path in _ROUTES or path == _MODELS or _is_of_one_model(path)

    async def _answer_preflight(self, scope: Scope, reply: ClientResponse, methods: str) -> None:
        """A browser asks whether a page may send a request. It sends no key with the question."""
        if self._cross_origin.allows(scope):
            await reply.empty(self._cross_origin.preflight_headers(scope, methods))
        else:
            await reply.problem(self._cross_origin.refusal(scope))

    async def _answer_models(self, scope: Scope, reply: ClientResponse) -> None:
        """All models, or the one that the path names."""
        try:
            self._services.access.authenticate(scope)
        except Refusal as refusal:
            await reply.problem(refusal.problem)
            return
        model, known = scope["path"][len(_MODEL) :], model_ids(self._source.replicas())
        if not model:
            data = [self._describe(model) for model in known]
            await reply.whole(200, msgspec.json.encode({"object": "list", "data": data}))
        elif model in known:
            await reply.whole(200, msgspec.json.encode(self._describe(model)))
        else:
            await reply.problem(model_not_found(model, known).problem)

    def _describe(self, model: str) -> dict[str, object]:
        """One model in OpenAI's form. The engine's own list would show the paths of its files."""
        return {
            "id": model,
            "object": "model",
            "created": self._started_at_s,
            "owned_by": "paceline",
            "max_model_len": longest_context(of_model(self._source.replicas(), model), model),
        }


def _is_of_one_model(path: bytes) -> bool:
    """Whether the path names a model. Model ids may hold slashes, but no part made of dots: such a
    path would escape the allow-list."""
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
