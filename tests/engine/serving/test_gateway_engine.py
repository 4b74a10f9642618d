"""The gateway in front of a real engine: answers, refusals, clients that leave, the governor."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import httpx
import openai
import pytest
import pytest_asyncio
from clients.real_clients import CLIENTS, run_session
from clients.real_sessions import FAILING, STEPS, find_faults
from coding_agents import CODEX_TURNS, as_chat_tool, codex_request, mcp_functions

from engine.serving.vllm_server import MAX_MODEL_LEN, MODEL, VllmServer
from paceline.foundation.recording.reading import read_recording
from paceline.runtime.gateway import GatewaySettings, Replica, serve_gateway

pytestmark = [
    pytest.mark.engine,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True)
class OneReplica:
    """A replica source with one replica that is always ready."""

    replica: Replica

    def replicas(self) -> list[Replica]:
        return [self.replica]


@dataclass(frozen=True, slots=True)
class Stack:
    """The gateway, the engine, and an HTTP client for each of their ports."""

    engine: VllmServer
    http: httpx.AsyncClient
    admin: httpx.AsyncClient
    direct: httpx.AsyncClient

    async def metric(self, *names: str) -> float:
        """The sum of some of the engine's own metrics."""
        text = (await self.direct.get("/metrics")).text
        return sum(
            float(line.split()[-1])
            for line in text.splitlines()
            if line.startswith(tuple(f"vllm:{name}{{" for name in names))
        )

    async def num_running(self) -> float:
        """Running and waiting requests."""
        return await self.metric("num_requests_running", "num_requests_waiting")

    async def until_running(self, enough: Callable[[float], bool]) -> None:
        for _ in range(3000):
            num = await self.num_running()
            if enough(num):
                return
            # sleep: the pause between two looks decides nothing
            await asyncio.sleep(0.02)
        pytest.fail(f"{num:g} requests still run")

    async def until_draft_length(self, length: int) -> None:
        """Wait for the first step that was planned with this length. A look that a busy machine
        answers too late says `error` in place of the state, and the next look follows."""
        for _ in range(3000):
            shown = (await self.admin.get("/admin/governor")).json()["replicas"]["r0"]
            is_planned = not shown.get("reason", "as set").startswith("as set")
            if is_planned and shown["draft_length"] == length:
                return
            # sleep: the pause between two looks decides nothing
            await asyncio.sleep(0.02)
        pytest.fail(f"the governor shows {shown}, {length} was set")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(vllm_server: VllmServer) -> AsyncIterator[Stack]:
    engine = vllm_server
    replica = Replica(
        "r0", str(engine.socket), MODEL, "ready", engine.control_socket, MAX_MODEL_LEN
    )
    settings = GatewaySettings(port=0, admin_port=0, drain_timeout_s=2)
    transport = httpx.AsyncHTTPTransport(uds=str(engine.socket))
    async with (
        serve_gateway(settings, OneReplica(replica)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=120) as http,
        httpx.AsyncClient(base_url=gateway.admin_url, timeout=120) as admin,
        httpx.AsyncClient(base_url="http://engine", transport=transport, timeout=60) as direct,
    ):
        yield Stack(engine, http, admin, direct)


def chat(**changes: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "def add(a, b):"}]
    return {"model": MODEL, "messages": messages, "max_tokens": 8, **changes}


async def test_streamed_and_plain_answers_are_the_same(stack: Stack) -> None:
    client = openai.AsyncOpenAI(base_url=str(stack.http.base_url.join("/v1")), api_key="unused")
    plain = await client.completions.create(
        model=MODEL, prompt="def add(a, b):\n", max_tokens=24, temperature=0
    )
    stream = await client.completions.create(
        model=MODEL,
        prompt="def add(a, b):\n",
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == (
        plain.choices[0].text
    )
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 24
    metrics = (await stack.admin.get("/metrics")).text
    assert "paceline_time_per_output_token_seconds_count 1.0" in metrics


async def test_each_turn_of_codex_is_answered(stack: Stack) -> None:
    """vLLM takes every item of the history and every tool. The bundled model calls no tool."""
    client = openai.AsyncOpenAI(base_url=str(stack.http.base_url.join("/v1")), api_key="unused")
    nums_input = []
    for conversation in CODEX_TURNS.values():
        body = codex_request(
            conversation, MODEL, instructions="Be short.", max_output_tokens=8, temperature=0
        )
        own = {"client_metadata": body.pop("client_metadata")}
        events = [event async for event in await client.responses.create(**body, extra_body=own)]
        response = events[-1].response
        assert response.output_text == "".join(
            event.delta for event in events if event.type == "response.output_text.delta"
        )
        assert len(response.tools) == len(body["tools"])
        nums_input.append(response.usage.input_tokens)
    assert sorted(set(nums_input)) == nums_input


async def test_an_agent_with_many_mcp_tools_is_answered(stack: Stack) -> None:
    client = openai.AsyncOpenAI(base_url=str(stack.http.base_url.join("/v1")), api_key="unused")
    response = await client.responses.create(
        model=MODEL, input="def add(a, b):", tools=mcp_functions(), max_output_tokens=8
    )
    assert response.usage is not None
    assert len(response.tools) == len(mcp_functions())
    answer = await client.chat.completions.create(
        **chat(tools=[as_chat_tool(tool) for tool in mcp_functions()], tool_choice="none")
    )
    assert answer.choices[0].message.content


REPRESENTATIVE = "openai-python"
"""All clients run against the scripted engine in `tests/clients`."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == REPRESENTATIVE else pytest.mark.slow)
        for name in CLIENTS
    ],
)
async def test_a_real_client_works_with_the_real_engine(stack: Stack, name: str) -> None:
    base_url = str(stack.http.base_url).rstrip("/") + "/v1"
    results = await run_session(CLIENTS[name], base_url, MODEL, "unused", *STEPS, failing=FAILING)
    assert find_faults(CLIENTS[name], results, FAILING) == []
    await stack.until_running(lambda num: num == 0)


@pytest.mark.parametrize(
    ("path", "request_body", "code", "param"),
    [
        (CHAT, chat(messages=[{"role": "user", "content": "a b c " * 600}]),
         "context_length_exceeded", "messages"),
        (COMPLETIONS, {"prompt": "x = 1\n" * 300}, "context_length_exceeded", "prompt"),
        (COMPLETIONS, {"prompt": [5] * (MAX_MODEL_LEN + 1)}, "context_length_exceeded", "prompt"),
        (COMPLETIONS, {"prompt": "x" * 2_000_000}, "context_length_exceeded", "prompt"),
        (CHAT, chat(max_tokens=MAX_MODEL_LEN + 1), "context_length_exceeded", "max_tokens"),
        (COMPLETIONS, {"prompt": [2**31 - 1]}, "invalid_value", None),
        (CHAT, chat(stop_token_ids=[2**31 - 1]), "invalid_value", None),
        (CHAT, chat(structured_outputs={"regex": "("}), "invalid_value", None),
        (CHAT, chat(structured_outputs={"json": "{"}), "invalid_value", None),
        (CHAT, chat(response_format={"type": "json_schema"}), "invalid_value", None),
        (CHAT, chat(stream_options={"include_usage": True}), "invalid_value", None),
        (CHAT, chat(tools=[{"type": "function"}]), "invalid_value", None),
        (CHAT, chat(messages=[{"role": "user", "content": [{"type": "text"}]}]),
         "invalid_value", None),
        (CHAT, chat(logit_bias={"a": "b"}), "invalid_value", None),
    ],
)  # fmt: skip
async def test_bad_input_gets_its_4xx_and_the_engine_survives(
    stack: Stack, path: str, request_body: dict[str, object], code: str, param: str | None
) -> None:
    answer = await stack.http.post(path, json={"model": MODEL, **request_body})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == code, error
    if param is not None:
        assert error["param"] == param
    assert (await stack.http.post(CHAT, json=chat(max_tokens=1))).status_code == 200


@pytest.mark.parametrize("field", [{"min_p": 0.5}, {"logit_bias": {"300": 100}}])
async def test_min_p_and_logit_bias_are_served(stack: Stack, field: dict[str, object]) -> None:
    answer = await stack.http.post(CHAT, json=chat(temperature=1, logprobs=True, **field))
    assert answer.status_code == 200, answer.text
    tokens = [one["token"] for one in answer.json()["choices"][0]["logprobs"]["content"]]
    if "logit_bias" in field:
        assert len(set(tokens)) == 1


EXTREMES = {
    "temperature": (0, 1e-9, 100),
    "top_p": (1e-9, 1),
    "top_k": (-1, 0, 2**31 - 1),
    "min_p": (0, 1e-9, 1),
    "logit_bias": ({"5": 100}, {"5": -100}),
    "repetition_penalty": (0.01, 100),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "seed": (-(2**63), 2**63 - 1),
    "n": (8,),
    "min_tokens": (0, 8, 2**31 - 1),
    "top_logprobs": (0, 20),
    "max_completion_tokens": (1, MAX_MODEL_LEN),
    "truncate_prompt_tokens": (-1, 0, 1, 2**31 - 1),
    "thinking_token_budget": (-1, 0, 2**31 - 1),
    "length_penalty": (-100, 100),
    "stop": ("x", ["x" * 512] * 16),
    "bad_words": (["x"], ["x" * 256] * 256),
    "allowed_token_ids": ([], [5], [2**31 - 1]),
    "stream_interval": (1, 10_000),
    "user": ("\u0000",),
}


@pytest.mark.parametrize("name", sorted(EXTREMES))
async def test_values_at_the_limits_never_stop_the_engine(stack: Stack, name: str) -> None:
    """All values of a field at once, greedy and sampled."""
    requests = [
        {**chat(max_tokens=2, temperature=temperature, logprobs=True), name: value}
        for value in EXTREMES[name]
        for temperature in (0, 1)
    ]
    answers = await asyncio.gather(*(stack.http.post(CHAT, json=one) for one in requests))
    for request, answer in zip(requests, answers, strict=True):
        assert answer.status_code in (200, 400), (request, answer.text)
    assert (await stack.http.post(CHAT, json=chat(max_tokens=1))).status_code == 200


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_frees_the_engine(stack: Stack, is_stream: bool) -> None:
    """Its requests end before their last token. Each client sends requests until all four are seen
    at once, because a fast machine may end some before the others begin."""
    long = chat(max_tokens=450, min_tokens=450, stream=is_stream)
    before = await stack.metric("generation_tokens_total")
    num_sent = 0

    async def send_again_and_again() -> None:
        nonlocal num_sent
        for _ in range(200):
            num_sent += 1
            (await stack.http.post(CHAT, json=long)).raise_for_status()

    clients = [asyncio.ensure_future(send_again_and_again()) for _ in range(4)]
    await stack.until_running(lambda num: num == 4)
    for client in clients:
        client.cancel()
    await asyncio.wait(clients)
    assert all(client.cancelled() for client in clients)
    await stack.until_running(lambda num: num == 0)
    assert await stack.metric("generation_tokens_total") - before < num_sent * 450
    (replica,) = (await stack.admin.get("/admin/replicas")).json()["replicas"]
    assert replica["in_flight"] == 0


async def test_the_governor_is_set_under_load(stack: Stack) -> None:
    """Each client sends requests until all lengths were seen, because a fast machine ends an
    answer before three settings have taken effect."""
    long = chat(max_tokens=150, min_tokens=150, stream=True)
    seen_all = asyncio.Event()

    async def answers() -> list[str]:
        texts = []
        for _ in range(100):
            texts.append((await stack.http.post(CHAT, json=long)).text)
            if seen_all.is_set():
                return texts
        pytest.fail("the draft lengths were not seen within 100 answers")

    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(answers()) for _ in range(3)]
        for length in (0, 2, 4):
            answer = await stack.admin.patch("/admin/governor", json={"draft_length": length})
            assert answer.status_code == 200, answer.text
            assert answer.json()["replicas"]["r0"]["policy"] == "fixed"
            await stack.until_draft_length(length)
        refused = await stack.admin.patch("/admin/governor", json={"draft_length": 5})
        assert refused.status_code == 400
        back = await stack.admin.patch("/admin/governor", json={"policy": "goodput"})
        assert back.status_code == 200
        seen_all.set()
    for text in chain.from_iterable(client.result() for client in clients):
        assert text.endswith("data: [DONE]\n\n")
        assert '"error"' not in text
    metrics = (await stack.admin.get("/metrics")).text
    assert 'paceline_governor_drafted_tokens_total{replica="r0"}' in metrics


async def test_an_engine_records_its_requests_and_steps(stack: Stack) -> None:
    """Tokens as in the answers' usage; drafts of 2 tokens; the file is deleted on command. The
    sampled answer may accept no first draft token, and then no second one was tried."""
    await stack.admin.patch("/admin/governor", json={"draft_length": 2})
    await stack.until_running(lambda num: num == 0)
    started = await stack.admin.post("/admin/recording", json={"action": "start"})
    assert started.status_code == 200, started.text
    usages = []
    for temperature in (0, 0, 1):
        body = {"model": MODEL, "prompt": "def add(a, b):", "max_tokens": 20, "min_tokens": 20}
        answer = await stack.http.post(COMPLETIONS, json={**body, "temperature": temperature})
        usages.append(answer.json()["usage"])
    stopped = await stack.admin.post("/admin/recording", json={"action": "stop"})
    recording = read_recording(Path(stopped.json()["replicas"]["r0"]["file"]))
    records = recording.requests
    assert [record.category for record in records] == ["greedy", "greedy", "sampled"]
    assert [(r.prompt_tokens, r.output_tokens) for r in records] == [
        (usage["prompt_tokens"], usage["completion_tokens"]) for usage in usages
    ]
    assert recording.output_tokens == sum(usage["completion_tokens"] for usage in usages)
    assert all(r.first_token_s is not None and r.ended_s is not None for r in records)
    assert all(record.tried and record.tried[0] > 0 for record in records)
    assert max(len(record.tried) for record in records) == 2
    cells = [cell for block in recording.blocks for cell in block.cells]
    assert {cell.draft_length for cell in cells} == {2}
    assert (recording.header.method, recording.header.max_draft_length) == ("draft_model", 4)
    deleted = await stack.admin.delete("/admin/recording")
    assert deleted.json()["replicas"]["r0"]["exists"] is False
    await stack.admin.patch("/admin/governor", json={"policy": "goodput"})


async def test_a_killed_engine_is_an_error_in_the_stream_and_then_a_503(stack: Stack) -> None:
    """The last test: the engine does not restart. Without drafts the answer takes long enough to be
    interrupted."""
    await stack.admin.patch("/admin/governor", json={"draft_length": 0})
    long = chat(max_tokens=450, min_tokens=450, stream=True)
    async with stack.http.stream("POST", CHAT, json=long) as answer:
        parts = answer.aiter_text()
        await anext(parts)
        os.killpg(stack.engine.process.pid, signal.SIGKILL)
        rest = "".join([part async for part in parts])
    last = rest.rstrip("\n").split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_unavailable"
    refused = await stack.http.post(CHAT, json=chat())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
