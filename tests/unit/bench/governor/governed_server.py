"""An admin port with one governor, and the completions of a server whose speed it sets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class GovernedServer:
    """Answers of 8 tokens; a token takes `slow_s` at draft length 0 and `fast_s` otherwise."""

    policy: str = "goodput"
    draft_length: int = 3
    """Set at run time if the policy is fixed."""
    fast_s: float = 0.002
    slow_s: float = 0.016
    has_governor: bool = True
    steps_total: int | None = None
    """What its governor reports; None: nothing."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    num_refused: int = 0
    """How many of the next changes to refuse."""
    refused_policy: str | None = None
    refuses: tuple[str, ...] = ()
    """Paths or body keys that are answered with 400."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """The draft length when each of `bodies` came."""
    off: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/admin/governor", self._state)
        application.router.add_patch("/admin/governor", self._change)
        application.router.add_post("/v1/completions", self._complete)
        application.router.add_post("/v1/chat/completions", self._complete)
        return application

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    @property
    def state(self) -> dict[str, Any]:
        given = {"draft_length": self.draft_length} if self.policy == "fixed" else {}
        return {
            "policy": self.policy, "policy_parameters": given, "draft_length": self.draft_length,
            "steps_total": self.steps_total,
        }  # fmt: skip

    async def _state(self, request: web.Request) -> web.Response:
        answer = (
            self.state if self.has_governor else {"error": "the replica has no control channel"}
        )
        return web.json_response({"replicas": {"engine-0": answer}})

    async def _change(self, request: web.Request) -> web.Response:
        change = await request.json()
        self.changes.append({**change, **dict(request.query)})
        if self.num_refused:
            self.num_refused -= 1
            raise web.HTTPServiceUnavailable
        if self.refused_policy is not None and change.get("policy") == self.refused_policy:
            return web.json_response({"error": {"message": "no such policy"}}, status=400)
        if "draft_length" in change:
            self.policy, self.draft_length = "fixed", change["draft_length"]
        else:
            self.policy, self.draft_length = change["policy"], 3
        if self.draft_length == 0:
            self.off.set()
        return web.json_response({})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.path in self.refuses or set(self.refuses) & set(body):
            return web.json_response({"error": {"message": "refused"}}, status=400)
        self.bodies.append(body)
        self.lengths.append(self.draft_length)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(8):
            # sleep: of virtual time where the speed counts
            await asyncio.sleep(self.slow_s if self.draft_length == 0 else self.fast_s)
            await self._write(response, {"choices": [{"index": 0, "text": "x"}]})
        await self._write(
            response, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
        )
        usage = {"prompt_tokens": 4, "completion_tokens": 8}
        await self._write(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _write(self, response: web.StreamResponse, event: dict[str, Any]) -> None:
        await response.write(f"data: {json.dumps(event)}\n\n".encode())
