"""The routes of the mock server as its clients see them: answers, streams and refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from paceline.testing.mock_vllm import (
    Answer,
    MockVllm,
    MockVllmSettings,
    encode_chat,
    encode_text,
    expected_answer,
)

SETTINGS = MockVllmSettings(model="m", tpot_ms=1, prefill_tokens_per_s=1e6)


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        MockVllm(SETTINGS) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        yield client


async def _stream(http: httpx.AsyncClient, path: str, **body: Any) -> tuple[list[dict], Answer]:
    """Read a stream: return its chunks and the answer they amount to."""
    request = {"model": "m", "stream": True, "return_token_ids": True, "temperature": 0, **body}
    answer = await http.post(path, json=request)
    assert answer.status_code == 200, answer.text
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    ids, text, reason, stop_reason = [], "", "", None
    for chunk in chunks:
        for choice in chunk["choices"]:
            ids += choice.get("token_ids") or []
            text += choice["delta"]["content"] if "delta" in choice else choice["text"]
            reason = choice["finish_reason"] or reason
            stop_reason = choice.get("stop_reason")
    return chunks, Answer(tuple(ids), text, reason, stop_reason)


async def test_a_streamed_chat_is_the_expected_answer(http: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "hé"}]
    prompt = encode_chat([("user", "hé")], add_generation_prompt=True)
    chunks, answer = await _stream(http, "/v1/chat/completions", messages=messages, max_tokens=50)
    assert answer == expected_answer(prompt, 50)
    assert chunks[0]["prompt_token_ids"] == prompt
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("prompt_token_ids" not in chunk for chunk in chunks[1:])


async def test_a_completion_can_be_continued_from_its_ids(http: httpx.AsyncClient) -> None:
    prompt = encode_text("once upon")
    _, whole = await _stream(http, "/v1/completions", prompt="once upon", max_tokens=60)
    assert whole == expected_answer(prompt, 60)
    _, rest = await _stream(
        http, "/v1/completions", prompt=prompt + list(whole.ids[:17]), max_tokens=43
    )
    assert rest.ids == whole.ids[17:]


async def test_an_answer_that_is_not_streamed_has_the_same_tokens(http: httpx.AsyncClient) -> None:
    body = {"model": "m", "prompt": "abc", "max_tokens": 30, "seed": 5, "return_token_ids": True}
    answer = (await http.post("/v1/completions", json=body)).json()
    expected = expected_answer(encode_text("abc"), 30, seed=5)
    choice = answer["choices"][0]
    assert (tuple(choice["token_ids"]), choice["text"]) == (expected.ids, expected.text)
    assert answer["usage"]["completion_tokens"] == len(expected.ids)


async def test_several_prompts_and_choices_do_not_mix(http: httpx.AsyncClient) -> None:
    body = {"model": "m", "prompt": ["a", "b"], "n": 2, "seed": 4, "max_tokens": 9}
    answer = (await http.post("/v1/completions", json=body)).json()
    texts = [choice["text"] for choice in answer["choices"]]
    requests = [("a", 4), ("a", 5), ("b", 4), ("b", 5)]
    assert texts == [expected_answer(encode_text(p), 9, seed=s).text for p, s in requests]


async def test_usage_is_sent_at_the_end_or_with_every_event(http: httpx.AsyncClient) -> None:
    options = {"include_usage": True}
    chunks, _ = await _stream(
        http, "/v1/completions", prompt="ab", max_tokens=4, stream_options=options
    )
    assert [chunk.get("usage") for chunk in chunks[:-1]] == [None] * 4
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 2, "total_tokens": 6, "completion_tokens": 4}
    chunks, _ = await _stream(
        http,
        "/v1/completions",
        prompt="ab",
        max_tokens=4,
        stream_options=options | {"continuous_usage_stats": True},
    )
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 4, 4]


async def test_chunks_have_the_number_of_tokens_of_the_pattern() -> None:
    settings = MockVllmSettings(model="m", tpot_ms=1, tokens_per_chunk=(1, 3, 2))
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        chunks, answer = await _stream(http, "/v1/completions", prompt="ab", max_tokens=14)
    assert answer == expected_answer(encode_text("ab"), 14)
    sizes = [len(chunk["choices"][0]["token_ids"]) for chunk in chunks]
    assert sizes == [1, 3, 2, 1, 3, 2, 1, 1]


async def test_tokens_are_sent_at_the_expected_times() -> None:
    """100 prompt tokens at 1000 per second, then 20 tokens 10 ms apart."""
    settings = MockVllmSettings(model="m", tpot_ms=10, prefill_tokens_per_s=1000)
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        body = {"model": "m", "prompt": "x" * 100, "max_tokens": 20, "stream": True}
        body |= {"ignore_eos": True}
        start_s = asyncio.get_running_loop().time()
        async with http.stream("POST", "/v1/completions", json=body) as answer:
            times_s = [
                asyncio.get_running_loop().time() - start_s
                async for line in answer.aiter_lines()
                if line.startswith("data: {")
            ]
    # Never early; the delay depends on the machine. test_engine checks the exact times.
    assert times_s[0] > 0.099
    assert times_s[-1] > 0.099 + 0.19


async def test_at_most_max_num_seqs_run_at_once() -> None:
    settings = MockVllmSettings(model="m", tpot_ms=10, max_num_seqs=1, prefill_tokens_per_s=1e6)
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        body = {"model": "m", "prompt": "x", "max_tokens": 10, "ignore_eos": True}
        start_s = asyncio.get_running_loop().time()
        await asyncio.gather(*(http.post("/v1/completions", json=body) for _ in range(3)))
        took_s = asyncio.get_running_loop().time() - start_s
    assert took_s > 3 * 0.09


@pytest.mark.parametrize(
    ("body", "status", "param", "message"),
    [
        ({"model": "x"}, 404, "model", "The model `x` does not exist. Valid aliases: m."),
        (
            {"prompt": "a" * 4097},
            400,
            "input_tokens",
            "This model's maximum context length is 4096",
        ),
        ({"prompt": "a" * 4096}, 400, "max_tokens", "max_tokens must be at least 1, got 0."),
        ({"max_tokens": 5000}, 400, "max_tokens", "max_tokens=5000 cannot be greater than max_mod"),
        ({"prompt": [9999]}, 400, None, "Token id 9999 is out of vocabulary"),
        ({"temperature": 3}, 400, "temperature", "temperature must be in [0, 2], got 3.0."),
        ({"temperature": 0, "n": 2}, 400, None, "n must be 1 when using greedy sampling, got 2."),
        ({"max_tokens": "a"}, 400, "body.max_tokens", "1 validation error:"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options", "Stream options can"),
    ],
)
async def test_refusals_have_vllms_messages(
    http: httpx.AsyncClient, body: dict[str, Any], status: int, param: str | None, message: str
) -> None:
    answer = await http.post("/v1/completions", json={"model": "m", "prompt": "a", **body})
    error = answer.json()["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert (answer.status_code, error["code"], error["param"]) == (status, status, param)
    assert error["message"].startswith(message)


@pytest.mark.parametrize("field", [{"min_p": 0.1}, {"logit_bias": {"5": 1}}])
async def test_min_p_and_logit_bias_are_refused_with_speculation(
    field: dict[str, Any],
) -> None:
    for speculates in (False, True):
        settings = MockVllmSettings(model="m", speculates=speculates, tpot_ms=0)
        async with (
            MockVllm(settings) as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as http,
        ):
            body = {"model": "m", "prompt": "a", "max_tokens": 2, **field}
            answer = await http.post("/v1/completions", json=body)
        assert answer.status_code == (400 if speculates else 200)
        assert ("not yet supported with speculative decoding" in answer.text) == speculates


async def test_the_api_key_is_required_where_vllm_requires_it() -> None:
    settings = MockVllmSettings(model="m", tpot_ms=0, api_key="k")
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer x"}, 401),
            ({"authorization": "k"}, 401),
            ({"authorization": "bearer k"}, 200),
        ):
            answer = await http.get("/v1/models", headers=headers)
            assert answer.status_code == status
            assert (answer.json() == {"error": "Unauthorized"}) == (status == 401)
        assert (await http.get("/health")).status_code == 200


async def test_whole_numbers_may_be_floats_and_a_mark_may_precede_the_body(
    http: httpx.AsyncClient,
) -> None:
    """vLLM's models take 8.0 for 8, and its JSON parser skips a byte order mark."""
    plain = {"model": "m", "prompt": [5, 6], "max_tokens": 8, "temperature": 0}
    floats = {**plain, "prompt": [5.0, 6], "max_tokens": 8.0, "seed": 7.0, "top_k": 4.0, "n": 1.0}
    expected = (await http.post("/v1/completions", json=plain)).json()["choices"]
    body = b"\xef\xbb\xbf" + json.dumps(floats).encode()
    answer = await http.post(
        "/v1/completions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.json()["choices"] == expected
    refused = await http.post("/v1/completions", json={**plain, "max_tokens": 8.5})
    assert refused.status_code == 400


async def test_strings_in_a_list_of_content_are_text(http: httpx.AsyncClient) -> None:
    answers = []
    for content in ("a\nb", ["a", {"type": "text", "text": "b"}]):
        body = {"model": "m", "messages": [{"role": "user", "content": content}], "temperature": 0}
        answer = await http.post("/v1/chat/completions", json={**body, "max_tokens": 8})
        answers.append(answer.json()["choices"])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("logit_bias", bias) for bias in ({"regex": 1}, {"5": "1"}, {"5": None}, {"5": [1]})),
        ("allowed_token_ids", []),
    ],
)
async def test_biases_and_tokens_that_are_none_are_refused(
    http: httpx.AsyncClient, name: str, value: object
) -> None:
    body = {"model": "m", "prompt": "a", name: value}
    answer = await http.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert name in answer.json()["error"]["message"]
