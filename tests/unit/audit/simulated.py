"""A server of known distributions in this process: the mock's model without HTTP and time."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.audit.server.server import Server
from paceline.audit.server.transport import ServerError
from paceline.mock_vllm.http.refusals import RequestRefused
from paceline.mock_vllm.http.request_parser import parse_request
from paceline.mock_vllm.http.response_format import render_whole
from paceline.mock_vllm.model.answer import AnswerGenerator
from paceline.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.mock_vllm.settings import MockVllmSettings

SETTINGS = MockVllmSettings(model="m", eos_every_tokens=0)


class SimulatedTransport:
    """Answers completions at once. It speculates; `defect` is how."""

    def __init__(self, defect: SamplingDefect | None = None, *, seed: int = 0) -> None:
        self.defect = defect or SamplingDefect(DefectKind.NO_DEFECT)
        self.bodies: list[Mapping[str, Any]] = []
        self._random = random.Random(seed)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        self.bodies.append(body)
        try:
            request = parse_request(
                dict(body), SETTINGS, is_chat=False, drawn_seed=self._random.getrandbits(40)
            )
        except RequestRefused as refused:
            raise ServerError(refused.message, refused.status) from None
        answers = []
        for number, prompt in enumerate(request.prompts):
            for seed in request.seeds:
                sampling = replace(request.sampling, seed=seed, defect=self.defect)
                generator = AnswerGenerator(prompt, sampling, SETTINGS.eos_every_tokens)
                answers.append((number, generator.advance(sampling.max_tokens)))
        document: dict[str, Any] = json.loads(render_whole(request, SETTINGS, "id", answers))
        return document

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Events of two tokens, as of accepted drafts of one; the first has one token."""
        [choice] = (await self.post(path, body))["choices"]
        ids = choice["token_ids"]
        parts = [ids[:1], *(ids[start : start + 2] for start in range(1, len(ids), 2))]
        return [{"choices": [{"token_ids": part}]} for part in parts]

    async def get(self, path: str) -> dict[str, Any]:
        """One model."""
        if path == "/v1/models":
            return {"data": [{"id": "m", "owned_by": "vllm"}]}
        raise ServerError("not found", 404)

    async def get_text(self, path: str) -> str:
        """No metrics."""
        raise ServerError("not found", 404)


class WithoutDrafts(SimulatedTransport):
    """The same model without speculation: one event per token."""

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        [choice] = (await self.post(path, body))["choices"]
        return [{"choices": [{"token_ids": [token]}]} for token in choice["token_ids"]]


def simulated_server(
    kind: DefectKind = DefectKind.NO_DEFECT, share: float = 1.0, *, seed: int = 0
) -> Server:
    """A server whose speculation has this defect."""
    return Server(SimulatedTransport(SamplingDefect(kind, share), seed=seed), url="http://m")
