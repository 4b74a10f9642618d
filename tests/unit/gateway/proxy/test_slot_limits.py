"""No replica gets more sequences at a time than its `max_in_flight`. Mock vLLM servers count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import Replica, serve_gateway
from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, Serve, chat

MODEL = "tiny"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PLAIN = MockVllmSettings(model=MODEL, tpot_ms=2, eos_every_tokens=0)
DRAFTING = replace(PLAIN, speculates=True)


_WITHIN_S = 60.0
"""How long a test waits for what must happen. No result depends on it."""


class CountingMock(MockVllm):
    """Records the most sequences that it had at a time, and can hold them."""

    most_sequences = 0

    def hold(self) -> None:
        """Generate nothing until `release`: sequences arrive and stay."""
        self._runner.pause()

    def release(self) -> None:
        self._runner.resume()

    async def until_it_has_had(self, num_sequences: int) -> None:
        """Wait until it has had this many sequences at a time."""
        async with asyncio.timeout(_WITHIN_S):
            while self.most_sequences < num_sequences:
                self._has_arrival.clear()
                await self._has_arrival.wait()

    async def __aenter__(self) -> CountingMock:
        await super().__aenter__()
        self._has_arrival = asyncio.Event()
        engine = self._runner.engine
        submit = engine.submit

        def counting(*arguments: Any) -> None:
            submit(*arguments)
            now = engine.num_running + engine.num_waiting
            self.most_sequences = max(self.most_sequences, now)
            self._has_arrival.set()

        engine.submit = counting  # type: ignore[method-assign]
        return self


@dataclass
class Service:
    """A gateway before mock servers."""

    mocks: list[CountingMock]
    http: httpx.AsyncClient

    async def statuses(self, path: str, bodies: list[dict[str, object]]) -> list[int]:
        answers = await asyncio.gather(*(self.http.post(path, json=body) for body in bodies))
        return [answer.status_code for answer in answers]


@asynccontextmanager
async def before(
    *kinds: MockVllmSettings, max_in_flight: int = 8, **limits: int
) -> AsyncIterator[Service]:
    """The first server of each kind is r0, the next r1."""
    async with AsyncExitStack() as stack:
        mocks = [await stack.enter_async_context(CountingMock(kind)) for kind in kinds]
        replicas = [
            Replica(
                f"r{index}",
                mock.url,
                MODEL,
                "ready",
                max_model_len=4096,
                drafts=mock.settings.speculates,
            )
            for index, mock in enumerate(mocks)
        ]
        admission = AdmissionSettings(max_in_flight=max_in_flight, **limits)
        settings = replace(
            SETTINGS,
            admission=admission,
            first_byte_timeout_s=_WITHIN_S,
            response_timeout_s=_WITHIN_S,
        )
        gateway = await stack.enter_async_context(serve_gateway(settings, FixedReplicas(replicas)))
        unlimited = httpx.Limits(max_connections=None)
        http = httpx.AsyncClient(base_url=gateway.url, timeout=60, limits=unlimited)
        yield Service(mocks, await stack.enter_async_context(http))


async def test_requests_that_one_replica_can_serve_wait_for_its_slots() -> None:
    """The slots of the replica that drafts are free, and of no use to them."""
    async with before(DRAFTING, PLAIN) as service:
        body = chat(max_tokens=10, logit_bias={"5": 1})
        assert await service.statuses(CHAT, [body] * 60) == [200] * 60
        assert [mock.most_sequences for mock in service.mocks] == [0, 8]


async def test_other_requests_do_not_wait_behind_them() -> None:
    """A waiting request keeps only its own replica to itself: that one generates nothing here."""
    async with before(DRAFTING, PLAIN) as service:
        drafting, plain = service.mocks
        for mock in service.mocks:
            mock.hold()
        waiting = [
            asyncio.create_task(service.http.post(CHAT, json=chat(max_tokens=5, min_p=0.1)))
            for _ in range(30)
        ]
        await plain.until_it_has_had(8)
        others = asyncio.create_task(service.statuses(CHAT, [chat(max_tokens=5)] * 8))
        await drafting.until_it_has_had(8)
        drafting.release()
        assert await others == [200] * 8
        plain.release()
        answers = await asyncio.gather(*waiting)
        assert [answer.status_code for answer in answers] == [200] * 30
        assert [mock.most_sequences for mock in service.mocks] == [8, 8]


@pytest.mark.parametrize(
    ("shape", "most"), [({"n": 4, "prompt": ["a", "b"]}, 16), ({"n": 3, "prompt": "a"}, 15)]
)
async def test_every_prompt_and_every_choice_takes_a_slot(
    shape: dict[str, object], most: int
) -> None:
    async with before(PLAIN, max_in_flight=16) as service:
        body = {"model": MODEL, "max_tokens": 10, "temperature": 1, **shape}
        assert await service.statuses(COMPLETIONS, [body] * 12) == [200] * 12
        assert service.mocks[0].most_sequences == most


async def test_a_large_request_gets_its_slots_while_small_ones_keep_coming() -> None:
    """They pass it, but not on the replica whose slots it waits for.

    Some 40 small requests are served before three large ones. Slots become free one at a time, so
    without slots kept for it a large request would wait for the end of the small ones.
    """
    async with before(PLAIN, PLAIN) as service:
        for mock in service.mocks:
            mock.hold()
        num_small, most_small = 0, 300

        async def keep_sending(max_tokens: int) -> None:
            nonlocal num_small
            while num_small < most_small:
                assert await service.statuses(CHAT, [chat(max_tokens=max_tokens)]) == [200]
                num_small += 1

        small = [asyncio.create_task(keep_sending(20 + number)) for number in range(32)]
        for mock in service.mocks:
            await mock.until_it_has_had(8)
        large = {"model": MODEL, "prompt": ["a"] * 8, "max_tokens": 5}
        answers = asyncio.create_task(service.statuses(COMPLETIONS, [large] * 3))
        for mock in service.mocks:
            mock.release()
        assert await answers == [200] * 3
        assert num_small < most_small
        for task in small:
            task.cancel()
        await asyncio.gather(*small, return_exceptions=True)
        assert [mock.most_sequences for mock in service.mocks] == [8, 8]


async def test_large_prompts_wait_until_their_tokens_fit() -> None:
    """Ten of 1,020 tokens each, where 2,500 may be in flight."""
    async with before(PLAIN, max_in_flight=16, max_tokens_in_flight=2500) as service:
        large = {"model": MODEL, "prompt": [7] * 1000, "max_tokens": 20}
        assert await service.statuses(COMPLETIONS, [large] * 10) == [200] * 10
        assert service.mocks[0].most_sequences == 2


async def test_more_answers_than_a_replica_computes_at_a_time_are_refused() -> None:
    async with before(PLAIN) as service:
        body = {"model": MODEL, "prompt": ["a"] * 5, "n": 2, "temperature": 1}
        answer = await service.http.post(COMPLETIONS, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (
            400,
            "invalid_value",
            "prompt",
        )
        assert "asks for 10 answers" in error["message"]
        assert "at most 8" in error["message"]
        assert service.mocks[0].most_sequences == 0


async def test_embeddings_of_many_texts_take_all_slots_of_a_replica(serve: Serve) -> None:
    """They take little time, and clients send up to 2,048 texts at once."""
    async with serve(admission=AdmissionSettings(max_in_flight=8)) as served:
        body = {"model": MODEL, "input": ["a"] * 300}
        assert (await served.http.post("/v1/embeddings", json=body)).status_code == 200
        assert (await served.http.post(CHAT, json=chat())).status_code == 200


@pytest.mark.parametrize("num_prompts", [65, 100, 256])
async def test_one_request_may_fill_all_slots_with_prompts(num_prompts: int) -> None:
    """The slots are the only limit on prompts, and they are a setting."""
    async with before(PLAIN, max_in_flight=num_prompts) as service:
        for more, status in ((0, 200), (1, 400)):
            texts = [f"def f{index}(" for index in range(num_prompts + more)]
            body = {"model": MODEL, "prompt": texts, "max_tokens": 1}
            answer = await service.http.post(COMPLETIONS, json=body)
            assert answer.status_code == status, answer.text
        assert answer.json()["error"]["param"] == "prompt"
        assert "admission.max_in_flight" in answer.json()["error"]["message"]
