"""An admin port with several governors, which can fail, restart, or be set by another client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

GOODPUT = {"policy": "goodput", "policy_parameters": {}, "draft_length": 2}


@dataclass
class GovernedFleet:
    """Its governors by name, as the admin port of a gateway shows them."""

    states: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {name: dict(GOODPUT) for name in ("r0", "r1", "r2")}
    )
    errors: dict[str, str] = field(default_factory=dict)
    """Replicas without a state now, and why; a change of one gets a 503."""
    num_failing_reads: dict[str, int] = field(default_factory=dict)
    """After that many further reads, a replica of `errors` is back."""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of /admin/replicas, in addition to name, state and has_governor."""
    changes: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    redirects: bool = False
    refusal: str | None = None
    """What the answer to every change says, with status 400."""

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/admin/governor", self._read)
        application.router.add_patch("/admin/governor", self._change)
        application.router.add_get("/admin/replicas", self._replicas)
        return application

    def server(self) -> TestServer:
        return TestServer(self.application(), host="127.0.0.1")

    async def _read(self, request: web.Request) -> web.Response:
        for name in tuple(self.num_failing_reads):
            self.num_failing_reads[name] -= 1
            if self.num_failing_reads[name] < 0:
                del self.num_failing_reads[name]
                self.errors.pop(name, None)
        answers = {
            name: {"error": self.errors[name]} if name in self.errors else state
            for name, state in self.states.items()
        }
        return web.json_response({"replicas": answers})

    async def _replicas(self, request: web.Request) -> web.Response:
        fixed = {"state": "ready", "has_governor": True}
        entries = [{"name": name, **fixed, **self.entries.get(name, {})} for name in self.states]
        return web.json_response({"replicas": entries})

    async def _change(self, request: web.Request) -> web.Response:
        if self.redirects:
            raise web.HTTPTemporaryRedirect("/admin/governor?replica=r2")
        change, name = await request.json(), request.query.get("replica")
        self.changes.append((name, change))
        assert name is not None
        if self.refusal is not None:
            return web.json_response({"error": {"message": self.refusal}}, status=400)
        if name in self.errors:
            raise web.HTTPServiceUnavailable
        self.set(name, change)
        return web.json_response({})

    def set(self, name: str, change: dict[str, Any]) -> None:
        ceiling = {"ceiling": change["ceiling"]} if "ceiling" in change else {}
        if "draft_length" in change:
            given = {"draft_length": change["draft_length"]}
            self.states[name] |= {"policy": "fixed", "policy_parameters": given, **given}
        elif "policy" in change:
            self.states[name] |= {"policy_parameters": {}, "draft_length": 2, **change}
        self.states[name] |= ceiling
