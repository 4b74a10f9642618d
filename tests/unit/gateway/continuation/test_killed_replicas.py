"""Streams whose replica is killed, over simulated replicas whose answers are known.

The replicas are processes and are killed with SIGKILL; the gateway serves in this one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.mock_vllm import (
    SpawnedMockVllm,
    encode_chat,
    encode_text,
    expected_answer,
    spawn_mock_vllm,
)
from unit.gateway.conftest import SETTINGS, FixedReplicas, until

MODEL = "known"
TPOT_MS = 4


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[SpawnedMockVllm, SpawnedMockVllm]]:
    flags = ("--model", MODEL, "--tpot-ms", str(TPOT_MS), "--max-model-len", "4096")
    with spawn_mock_vllm(*flags) as one, spawn_mock_vllm(*flags) as two:
        yield one, two


@dataclass
class Transcript:
    """A stream as its client read it."""

    chunks: list[dict[str, Any]]
    is_done: bool
    error: dict[str, Any] | None

    @property
    def text(self) -> str:
        choices = [choice for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(c["text"] if "text" in c else c["delta"]["content"] for c in choices)

    @property
    def finish_reasons(self) -> list[str]:
        reasons = [c["finish_reason"] for chunk in self.chunks for c in chunk["choices"]]
        return [reason for reason in reasons if reason is not None]


@asynccontextmanager
async def gateway_over(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm],
    revisions: tuple[str | None, str | None] = (None, None),
    **changes: Any,
) -> AsyncIterator[RunningGateway]:
    """Two replicas, alive again if a test killed them."""
    for mock_vllm in pair:
        if mock_vllm.returncode is not None:
            mock_vllm.start()
    source = FixedReplicas(
        [
            Replica(
                f"r{i}",
                mock_vllm.url,
                MODEL,
                "ready",
                max_model_len=4096,
                honours_draft_caps=True,
                revision=revision,
            )
            for i, (mock_vllm, revision) in enumerate(zip(pair, revisions, strict=True))
        ]
    )
    failures = FailureSettings(open_s=0.1, replica_wait_s=60)
    settings = replace(SETTINGS, **{"failures": failures, **changes})
    async with serve_gateway(settings, source) as gateway:
        yield gateway


async def lines_of(response: httpx.Response) -> AsyncIterator[str]:
    """Lines as events have them; httpx's own end at U+2028 too, which JSON need not escape."""
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode()


async def read_stream(
    gateway: RunningGateway, path: str, body: dict[str, Any], kill: SpawnedMockVllm, after: int
) -> Transcript:
    """The whole stream; the replica that serves it is killed after this many events."""
    transcript = Transcript([], False, None)
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        client.stream("POST", path, json={**body, "stream": True}) as response,
    ):
        assert response.status_code == 200, await response.aread()
        num_events = 0
        async for line in lines_of(response):
            if line == "data: [DONE]":
                transcript.is_done = True
            elif line.startswith("data: "):
                num_events += 1
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    transcript.error = chunk["error"]
                else:
                    transcript.chunks.append(chunk)
                if num_events == after:
                    await asyncio.to_thread(kill.kill)
    return transcript


CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me 🚲 things."}]}
COMPLETION = {"model": MODEL, "prompt": "Once upon"}


@pytest.mark.parametrize("after", [1, 2, 3, 7, 20, 39])
async def test_a_chat_continues_with_the_tokens_that_it_would_have_had(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm], after: int
) -> None:
    body = {**CHAT, "max_tokens": 40, "temperature": 0}
    body["stream_options"] = {"include_usage": True}
    prompt = encode_chat([("user", "Tell me 🚲 things.")], add_generation_prompt=True)
    expected = expected_answer(prompt, 40)
    async with gateway_over(pair) as gateway:
        transcript = await read_stream(gateway, "/v1/chat/completions", body, pair[0], after)
    assert transcript.is_done
    assert transcript.text == expected.text
    assert transcript.finish_reasons == [expected.finish_reason]
    usage = transcript.chunks[-1]["usage"]
    assert usage["completion_tokens"] == len(expected.ids)
    assert len({chunk["id"] for chunk in transcript.chunks}) == 1
    assert [
        c for c in transcript.chunks if "role" in (c["choices"] or [{}])[0].get("delta", {})
    ] == [transcript.chunks[0]]


async def test_a_replica_of_another_revision_does_not_continue(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm],
) -> None:
    """The stream waits for its own revision and ends with an error; new requests are served."""
    body = {**COMPLETION, "max_tokens": 1000, "temperature": 0}  # 4 s
    failures = FailureSettings(open_s=0.1, replica_wait_s=0.3)
    async with gateway_over(pair, ("old", "new"), failures=failures) as gateway:
        transcript = await read_stream(gateway, "/v1/completions", body, pair[0], 7)
        assert transcript.error is not None
        assert not transcript.is_done
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            short = {**body, "max_tokens": 4}
            assert (await client.post("/v1/completions", json=short)).status_code == 200


async def test_a_seeded_stream_continues_although_its_tokens_differ(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm],
) -> None:
    body = {**COMPLETION, "max_tokens": 40, "temperature": 1, "seed": 5, "ignore_eos": True}
    async with gateway_over(pair, granted_fields=frozenset({"ignore_eos"})) as gateway:
        transcript = await read_stream(gateway, "/v1/completions", body, pair[0], 10)
    assert transcript.is_done
    assert transcript.finish_reasons == ["length"]


async def test_a_continuation_keeps_the_limit_on_drafts(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[dict[str, Any]] = []
    post = Upstreams.post

    async def recording(self: Upstreams, replica: Any, path: str, body: bytes, *others: Any) -> Any:
        if path != "/detokenize":
            bodies.append(json.loads(body))
        return await post(self, replica, path, body, *others)

    monkeypatch.setattr(Upstreams, "post", recording)
    body = {**CHAT, "max_tokens": 40, "temperature": 0, "speculation": {"max_draft_length": 1}}
    async with gateway_over(pair) as gateway:
        transcript = await read_stream(gateway, "/v1/chat/completions", body, pair[0], 7)
    assert transcript.is_done
    assert len(bodies) == 2
    for sent in bodies:
        assert sent["vllm_xargs"] == {"paceline_max_draft_length": 1}
        assert "speculation" not in sent


async def test_two_deaths_in_one_stream(pair: tuple[SpawnedMockVllm, SpawnedMockVllm]) -> None:
    body = {**COMPLETION, "max_tokens": 60, "temperature": 0}
    expected = expected_answer(encode_text(str(COMPLETION["prompt"])), 60)
    async with gateway_over(pair) as gateway:
        reading = asyncio.create_task(read_stream(gateway, "/v1/completions", body, pair[0], 10))
        await until(lambda: pair[0].returncode is not None)
        # sleep: the stream is whole whenever the second one dies
        await asyncio.sleep(10 * TPOT_MS / 1000)
        await asyncio.to_thread(pair[0].start)
        await asyncio.to_thread(pair[1].kill)
        transcript = await reading
    assert transcript.is_done
    assert transcript.text == expected.text


async def test_all_replicas_dead_then_one_back(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm],
) -> None:
    body = {**COMPLETION, "max_tokens": 60, "temperature": 0}
    expected = expected_answer(encode_text(str(COMPLETION["prompt"])), 60)
    async with gateway_over(pair) as gateway:
        pair[1].kill()
        reading = asyncio.create_task(read_stream(gateway, "/v1/completions", body, pair[0], 10))
        await until(lambda: pair[0].returncode is not None)
        # sleep: the stream is whole however long no replica serves
        await asyncio.sleep(0.5)
        await asyncio.to_thread(pair[1].start)
        transcript = await reading
    assert transcript.is_done
    assert transcript.text == expected.text


async def test_a_stream_that_cannot_be_continued_ends_with_an_error(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm],
) -> None:
    body = {**COMPLETION, "max_tokens": 300, "temperature": 0, "presence_penalty": 1}
    async with gateway_over(pair) as gateway:
        transcript = await read_stream(gateway, "/v1/completions", body, pair[0], 10)
    assert not transcript.is_done
    assert transcript.error is not None
    assert transcript.error["code"] == "engine_unavailable"


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_request_whose_client_has_received_nothing_is_made_again(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm], is_stream: bool
) -> None:
    """Without streaming nothing is sent before the end, so any kind of request can be retried."""
    body = {**COMPLETION, "max_tokens": 60, "temperature": 0, "presence_penalty": 1}
    async with gateway_over(pair) as gateway:
        pair[0].stop()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            asking = asyncio.create_task(
                client.post("/v1/completions", json={**body, "stream": is_stream})
            )
            await until(lambda: gateway.traffic.num_in_flight("r0") == 1)
            await asyncio.to_thread(pair[0].kill)
            answer = await asking
    assert answer.status_code == 200
    if is_stream:
        assert answer.text.endswith("data: [DONE]\n\n")
    else:
        assert answer.json()["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("shows_stop", [False, True])
async def test_a_stop_string_over_the_resume_point(
    pair: tuple[SpawnedMockVllm, SpawnedMockVllm], shows_stop: bool
) -> None:
    """The stream is broken at every token of a stop string and of the text held back for it."""
    prompt = encode_text(str(COMPLETION["prompt"]))
    text = expected_answer(prompt, 60).text
    stop = text[20:28]
    expected = expected_answer(prompt, 60, stop=[stop], include_stop_str_in_output=shows_stop)
    assert expected.finish_reason == "stop"
    body = {**COMPLETION, "max_tokens": 60, "temperature": 0, "stop": stop}
    body["include_stop_str_in_output"] = shows_stop
    for after in (4, 9, 14):
        async with gateway_over(pair) as gateway:
            transcript = await read_stream(gateway, "/v1/completions", body, pair[0], after)
        assert transcript.is_done
        assert transcript.text == expected.text
        assert transcript.finish_reasons == ["stop"]
        assert transcript.chunks[-1]["choices"][0]["stop_reason"] == stop
