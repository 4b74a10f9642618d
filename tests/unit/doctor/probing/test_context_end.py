"""Steps with drafts and without on a vLLM server that always drafts, with known step times."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from paceline.foundation.load.quick_requests import SessionSender
from paceline.operations.doctor.observing.server import ObservedServer
from paceline.operations.doctor.probing import shared_steps
from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.context_end import infer_gain_of_drafts
from paceline.operations.doctor.probing.load import Answers, ProbeLoad
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.readings.probe_result import MeasuredGain
from unit.doctor.simulated import SimulatedEngine, observe_vllm

LENGTH = 8
ENGINE = SimulatedEngine(
    draft_ms=1.0, token_ms=1.0, reached=(0.5, 0.2, 0.1, *(0.0,) * 5), loads=(4,) * 16
)
"""At load 4: 20 + 8 + 36 = 64 ms a step for 1.8 tokens, instead of 24 ms for one."""

_LOAD_TOKENS = 132
"""Context in the middle of an answer of the load."""


@dataclass
class DraftingServer:
    """Answers after 10 ms, and counts what an engine with these step times would have counted."""

    context: int | None = 512
    skips: bool = True
    """Whether it drafts nothing where a draft would not fit."""
    verifies_zeros: bool = True
    """Whether it then verifies zeros, as vLLM does without Paceline's plugin."""
    shares_steps: bool = True
    """Whether requests that are sent together are computed together."""
    long_s: float = 1.25
    """By how much the longest context makes every step slower than the load's."""
    first_extra_ms: float = 0.0
    """By how much the first step after a prompt is longer; half of that for the second."""
    steps_of_others: int = 0
    """Of other requests, during each of the probe's."""
    engine_steps: int = 0
    steps: int = 0
    decode_s: float = 0.0
    drafts: int = 0
    accepted: int = 0

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_post("/v1/completions", self._complete)
        return application

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "max_model_len": self.context}]})

    async def _metrics(self, request: web.Request) -> web.Response:
        label = '{engine="0"}'
        figures = {
            "vllm:num_requests_running": 0,
            "vllm:generation_tokens_total": 0,
            "vllm:iteration_tokens_total_count": self.engine_steps,
            "vllm:inter_token_latency_seconds_sum": self.decode_s,
            "vllm:inter_token_latency_seconds_count": self.steps,
            "vllm:spec_decode_num_drafts_total": self.drafts,
            "vllm:spec_decode_num_accepted_tokens_total": self.accepted,
        }
        lines = (f"{name}{label} {value}" for name, value in figures.items())
        return web.Response(text="\n".join(lines) + "\n")

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(0.01)  # sleep: of virtual time, which passes nowhere else
        assert body.get("temperature", 1.0) == 1.0
        prompts = body["prompt"]
        if isinstance(prompts[0], str):
            choices = [{"prompt_token_ids": list(range(100))} for _ in prompts]
            return web.json_response({"choices": choices})
        self.engine_steps += 1
        self.steps += self.steps_of_others
        self.accepted += self.steps_of_others
        self._decode([len(prompt) for prompt in prompts], body["max_tokens"] - 1)
        return web.json_response({"choices": []})

    def _decode(self, prompts: list[int], num_left: int) -> None:
        """Every draft gives one token, but every second one before the end two."""
        assert self.context is not None
        num_requests, longest = len(prompts), max(prompts)
        mean_tokens = sum(prompts) / num_requests
        for number in itertools.count():
            if num_left <= 0:
                return
            room = self.context - longest - 1
            fits = not self.skips or longest + 1 + LENGTH <= self.context
            verifies = min(LENGTH, room - 1) if fits or self.verifies_zeros else 0
            step_ms = ENGINE.step_ms(num_requests) if fits else ENGINE.step_ms(num_requests, 0)
            beyond = max(0.0, mean_tokens - _LOAD_TOKENS) / (self.context - _LOAD_TOKENS)
            step_ms *= 1 + (self.long_s - 1) * beyond
            step_ms += self.first_extra_ms / 2**number if number < 2 else 0.0
            accepts = fits and verifies > 0 and number % 2 == 1
            self.decode_s += num_requests * step_ms / 1e3
            self.steps += num_requests
            self.drafts += num_requests if verifies > 0 else 0
            self.accepted += num_requests if accepts else 0
            self.engine_steps += 1 if self.shares_steps else 2
            longest, mean_tokens = longest + 1 + accepts, mean_tokens + 1 + accepts
            num_left -= 1 + accepts


@pytest.fixture(autouse=True)
def _no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """This server needs no request that goes ahead."""
    monkeypatch.setattr(shared_steps, "_LEAD_S", 0.0)


@contextlib.asynccontextmanager
async def _running(server: DraftingServer) -> AsyncIterator[URL]:
    running = TestServer(server.application())
    await running.start_server()
    try:
        yield running.make_url("/").origin()
    finally:
        await running.close()


async def _gain(
    server: DraftingServer,
    engine: SimulatedEngine = ENGINE,
    seconds: float = 0.5,
    concurrency: int = 4,
) -> MeasuredGain:
    readings = observe_vllm(engine).readings
    load = ProbeLoad(
        sender=cast("SessionSender", None),
        specs=iter(()),
        model="m",
        workload="hard",
        temperature=1.0,
        texts=("def f():",) * 3,
        at_full_load=Answers(1, 64, 64 * engine.step_ms(concurrency) / 1.8e3),
    )
    async with _running(server) as url, aiohttp.ClientSession() as session:
        observed = ObservedServer(session, url, None)
        await observed.identify()
        settings = ProbeSettings(url, None, seconds, concurrency)
        return await infer_gain_of_drafts(session, observed, load, settings, readings)


@pytest.mark.parametrize("first_extra_ms", [0.0, 20.0])
@pytest.mark.parametrize("long_s", [1.0, 1.25, 4.0])
async def test_steps_beside_one_at_its_end_give_the_gain(
    long_s: float, first_extra_ms: float
) -> None:
    """Also if a long context makes steps without drafts much slower than it makes others."""
    server = DraftingServer(verifies_zeros=False, long_s=long_s, first_extra_ms=first_extra_ms)
    gain = await _gain(server, seconds=2.0)
    assert ENGINE.gain(4) == pytest.approx(1.8 * 24 / 64)
    assert 1 - gain.value == pytest.approx(1 - ENGINE.gain(4), rel=0.2)
    assert gain.low < 1 - (1 - ENGINE.gain(4)) * 0.8
    assert gain.high < 1
    assert gain.tokens_per_s == pytest.approx(4 * 1.8 / 0.064)


async def test_the_last_step_of_a_context_bounds_the_gain() -> None:
    gain = await _gain(DraftingServer(verifies_zeros=True), seconds=2.0)
    assert gain.low < ENGINE.gain(4) < gain.high < 1
    assert "in proportion to the context" in gain.how


async def test_one_request_alone_is_at_its_end_and_gives_bounds() -> None:
    """Its context makes the step without drafts four times as long: no estimate for the load."""
    engine = dataclasses.replace(ENGINE, loads=(1,) * 16)
    server = DraftingServer(verifies_zeros=False, long_s=4.0)
    gain = await _gain(server, engine, seconds=2.0, concurrency=1)
    assert gain.low < ENGINE.gain(1) < gain.high
    assert gain.high - gain.low > 0.5


def _changed(**changes: Any) -> DraftingServer:
    return dataclasses.replace(DraftingServer(), **changes)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (_changed(skips=False), "drafts to the end of its context"),
        (_changed(steps_of_others=10), "the server computes other requests"),
        (_changed(shares_steps=False), "in 0 rounds all requests shared their steps"),
        (_changed(context=131072), "131072 tokens is too long to fill"),
        (_changed(context=None), "does not list the context length"),
        (_changed(context=200), "too short for the comparison"),
    ],
)
async def test_a_server_that_does_not_show_such_steps_has_a_reason(
    server: DraftingServer, reason: str
) -> None:
    with pytest.raises(NotMeasured, match=reason):
        await _gain(server)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (dataclasses.replace(ENGINE, reached=()), "without speculation"),
        (dataclasses.replace(ENGINE, reached=(0.5, 0.2, 0.1)), "too short to test"),
    ],
)
async def test_an_engine_without_long_drafts_has_a_reason(
    engine: SimulatedEngine, reason: str
) -> None:
    with pytest.raises(NotMeasured, match=reason):
        await _gain(DraftingServer(), engine)
