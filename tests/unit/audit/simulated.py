"""A server of known distributions in this process: the mock's model without HTTP and time."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.testing.mock_vllm.http.refusals import RequestRefused
from paceline.testing.mock_vllm.http.request_parser import parse_request
from paceline.testing.mock_vllm.http.response_format import render_whole
from paceline.testing.mock_vllm.model.answer import AnswerGenerator
from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.testing.mock_vllm.settings import MockVllmSettings
from paceline.workbench.audit.server.bodies import NEUTRAL
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError

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
        """Events of one token and of two in turn, as of drafts of one; every second is accepted."""
        [choice] = (await self.post(path, body))["choices"]
        return [{"choices": [{"token_ids": part}]} for part in in_turn(choice["token_ids"])]

    async def get(self, path: str) -> dict[str, Any]:
        """One model."""
        if path == "/v1/models":
            return {"data": [{"id": "m", "owned_by": "vllm"}]}
        raise ServerError("not found", 404)

    async def get_text(self, path: str) -> str:
        """No metrics."""
        raise ServerError("not found", 404)


def unreachable() -> ServerError:
    """Of a request to a server that has ended before."""
    error = ServerError("cannot reach it")
    error.was_sent = False
    return error


def in_turn(tokens: list[Any]) -> list[list[Any]]:
    """Parts of one token and of two in turn."""
    return [tokens[at : at + 1 + at % 3] for at in range(len(tokens)) if at % 3 < 2]


class WithoutDrafts(SimulatedTransport):
    """The same model without speculation: one event per token."""

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        [choice] = (await self.post(path, body))["choices"]
        return [{"choices": [{"token_ids": [token]}]} for token in choice["token_ids"]]


class Counting(WithoutDrafts):
    """Counts a draft token for each token after the first of an answer; none is accepted."""

    num_drafts = 0

    def drafts(self, body: Mapping[str, Any]) -> bool:
        """Whether it drafts for this request."""
        return True

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        is_drafted = self.drafts(body)
        document = await super().post(path, body)
        if is_drafted:
            self.num_drafts += sum(len(one["token_ids"]) - 1 for one in document["choices"])
        return document

    async def get_text(self, path: str) -> str:
        return f"vllm:spec_decode_num_draft_tokens_total {self.num_drafts}"


class ChangingEveryToken(SimulatedTransport):
    """Samples every token, drafted or not, with parameters of its own; greedy answers are right."""

    def __init__(self, **parameters: float) -> None:
        super().__init__()
        self._parameters = parameters

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        is_sampled = body["temperature"] > 0
        return await super().post(path, {**body, **self._parameters} if is_sampled else body)


class Drafting(SimulatedTransport):
    """Four tokens per event, one without drafts; `stale` loses the draft's cache meanwhile."""

    def __init__(self, *, stale: bool) -> None:
        super().__init__()
        self._stale = stale
        self._without_drafts: set[tuple[int, ...]] = set()

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        document = await super().post(path, body)
        if "speculation" in body and body["max_tokens"] > 100:
            [choice] = document["choices"]
            self._without_drafts.add((*choice["prompt_token_ids"], *choice["token_ids"]))
        return document

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        events = await super().post_stream(path, body)
        ids = [token for event in events for token in event["choices"][0]["token_ids"]]
        prompt = body["prompt"] if isinstance(body["prompt"], list) else []
        is_stale = self._stale and tuple(prompt) in self._without_drafts
        size = 1 if "speculation" in body or is_stale else 4
        parts = [ids[:1], *(ids[i : i + size] for i in range(1, len(ids), size))]
        return [{"choices": [{"token_ids": part}]} for part in parts]


class DyingOn(SimulatedTransport):
    """Answers nothing any more after a request whose body has this field, beyond its neutral value.

    `is_dead` is whether it has died.
    """

    def __init__(self, field: str, defect: SamplingDefect | None = None) -> None:
        super().__init__(defect)
        self._field = field
        self.is_dead = False

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_dead:
            raise unreachable()
        if body.get(self._field) not in (None, NEUTRAL.get(self._field)):
            self.is_dead = True
            raise ServerError("it died", 500)
        return await super().post(path, body)


def simulated_server(
    kind: DefectKind = DefectKind.NO_DEFECT, share: float = 1.0, *, seed: int = 0
) -> Server:
    """A server whose speculation has this defect."""
    return Server(SimulatedTransport(SamplingDefect(kind, share), seed=seed), url="http://m")
