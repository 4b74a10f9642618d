"""The first turns of coding agents over the gateway, in the shapes that they send.

The real openai client sends them and reads the streams.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from agent_answers import answer_stream
from coding_agents import (
    CODEX_TOOLS,
    CODEX_TURNS,
    FIRST,
    FIRST_ANSWER,
    SECOND,
    SECOND_ANSWER,
    THIRD,
    THIRD_ANSWER,
    Json,
    as_chat_tool,
    codex_request,
    function,
    mcp_functions,
    message,
)

from paceline.runtime.gateway import GatewaySettings, Replica, serve_gateway
from paceline.runtime.gateway.requests.field_checks import MAX_SCHEMA_BYTES
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings, encode_chat, expected_answer
from unit.gateway.conftest import SETTINGS, FixedReplicas, Served
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/responses"


def client_of(base_url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="x", max_retries=0, timeout=60)


async def respond(client: openai.AsyncOpenAI, body: Json) -> tuple[Json, dict[str, str]]:
    """The response that completes the stream, and the text of each item from its deltas."""
    texts: dict[str, str] = {}
    own = {"client_metadata": body["client_metadata"]} if "client_metadata" in body else {}
    sent = {name: value for name, value in body.items() if name not in own}
    numbers = []
    async for event in await client.responses.create(**sent, extra_body=own):
        numbers.append(event.sequence_number)
        if event.type.endswith(".delta"):
            texts[event.item_id] = texts.get(event.item_id, "") + event.delta
    assert event.type == "response.completed"
    assert numbers == list(range(len(numbers)))
    response: Json = event.response.to_dict()
    return response, texts


def as_sent_back(item: Json) -> Json:
    """An item of an answer as Codex sends it in the next turn."""
    if item["type"] == "message":
        return message("assistant", item["content"][0]["text"])
    own = {
        "reasoning": ("summary", "content", "encrypted_content"),
        "function_call": ("name", "arguments", "call_id", "namespace"),
        "custom_tool_call": ("call_id", "name", "input", "status"),
    }[item["type"]]
    named = {name: item[name] for name in own if item.get(name) is not None}
    empty = {"encrypted_content": None} if item["type"] == "reasoning" else {}
    return {"type": item["type"], **named, **empty}


@pytest.mark.parametrize("turn", CODEX_TURNS)
async def test_each_turn_of_codex_reaches_the_engine_unchanged(served: Served, turn: str) -> None:
    body = json.dumps(codex_request(CODEX_TURNS[turn], MODEL)).encode()
    headers = {"content-type": "application/json"}
    answer = await served.http.post(PATH, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "event: response.completed" in answer.text
    assert served.engine.bodies == [body]


async def test_codex_runs_the_calls_that_each_turn_streams(served: Served) -> None:
    """Each turn sends the items of the last answer back, with the results of their calls."""
    client = client_of(served.gateway.url)
    conversation = FIRST
    for before, answered, after in (
        (FIRST, FIRST_ANSWER, SECOND),
        (SECOND, SECOND_ANSWER, THIRD),
        (THIRD, THIRD_ANSWER, None),
    ):
        assert conversation == before
        served.engine.mode, served.engine.raw = "raw", answer_stream(answered, MODEL)
        response, texts = await respond(client, codex_request(conversation, MODEL))
        items = [as_sent_back(item) for item in response["output"]]
        assert items == answered
        assert [*texts.values()] == [text_of(item) for item in answered]
        assert json.loads(served.engine.bodies[-1])["input"] == before
        if after is not None:
            results = after[len(before) + len(answered) :]
            conversation = [*conversation, *items, *results]
    assert await served.outcomes() == {"completed": 3}


def text_of(item: Json) -> str:
    """What the deltas of an item amount to."""
    text: str = item.get("arguments") or item.get("input") or item["content"][0]["text"]
    return text


LONGEST = GatewaySettings().max_body_bytes


@asynccontextmanager
async def before_mock(max_body_bytes: int = LONGEST) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a gateway before the mock server."""
    engine = MockVllmSettings(model=MODEL, tpot_ms=0, eos_every_tokens=0, max_model_len=32_768)
    settings = replace(SETTINGS, max_body_bytes=max_body_bytes)
    async with MockVllm(engine) as mock:
        replica = Replica("r0", mock.url, MODEL, "ready", max_model_len=engine.max_model_len)
        async with serve_gateway(settings, FixedReplicas([replica])) as gateway:
            yield client_of(gateway.url)


async def test_the_mock_server_answers_each_turn_of_codex() -> None:
    """Its tokens are a function of the prompt, so they show that no item was lost."""
    limits = {"max_output_tokens": 12, "temperature": 0}
    instructions = codex_request([], MODEL)["instructions"]
    talk = [("user", "<environment_context><cwd>/repo</cwd></environment_context>"),
            ("user", "Fix the failing test.")]  # fmt: skip
    talk = [("system", instructions), ("developer", "<permissions>read only</permissions>"), *talk]
    tail = [
        [],
        [("assistant", "I look at the tests first."), ("tool", "1 failed")],
        [("assistant", ""), ("tool", "none"), ("tool", "Done")],
    ]
    async with before_mock() as client:
        for conversation, more in zip(CODEX_TURNS.values(), tail, strict=True):
            talk += more
            response, texts = await respond(client, codex_request(conversation, MODEL, **limits))
            prompt = encode_chat(talk, add_generation_prompt=True)
            assert [*texts.values()] == [answer_to(prompt, 12)]
            assert response["usage"]["input_tokens"] == len(prompt)
            assert [tool["type"] for tool in response["tools"]] == [
                tool["type"] for tool in CODEX_TOOLS
            ]


def answer_to(prompt: list[int], num_tokens: int) -> str:
    return expected_answer(prompt, num_tokens, eos_every_tokens=0).text


MCP_CALL = {
    "name": "mcp__tracker__operation_7",
    "arguments": json.dumps({"filter": {"all": []}, "states": ["⏸ paused"]}),
}


async def test_an_agent_with_many_mcp_tools_has_several_chat_turns() -> None:
    tools = [as_chat_tool(tool) for tool in mcp_functions()]
    assert len(tools) > 22
    assert len(json.dumps(tools)) > 80_000
    messages: list[Any] = [{"role": "user", "content": "Which tasks are open?"}]
    talk = [("user", "Which tasks are open?")]
    async with before_mock() as client:
        for turn in range(4):
            stream = await client.chat.completions.create(
                model=MODEL, messages=messages, tools=tools, tool_choice="auto", stream=True,
                max_tokens=12, temperature=0, stream_options={"include_usage": True},
            )  # fmt: skip
            chunks = [chunk async for chunk in stream]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
            assert text == answer_to(encode_chat(talk, add_generation_prompt=True), 12)
            assert chunks[-1].usage is not None
            call = {"id": f"call_{turn}", "type": "function", "function": MCP_CALL}
            messages += [
                {"role": "assistant", "content": text, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": f"page {turn}"},
            ]
            talk += [("assistant", text), ("tool", f"page {turn}")]


async def test_an_agent_with_many_mcp_tools_has_several_responses() -> None:
    tools = mcp_functions()
    conversation = [message("user", "Which tasks are open?")]
    talk = [("user", "Which tasks are open?")]
    async with before_mock() as client:
        for turn in range(4):
            body = {"model": MODEL, "input": conversation, "tools": tools, "stream": True,
                    "store": False, "max_output_tokens": 12, "temperature": 0}  # fmt: skip
            response, texts = await respond(client, body)
            [text] = texts.values()
            assert text == answer_to(encode_chat(talk, add_generation_prompt=True), 12)
            assert [tool["parameters"] for tool in response["tools"]] == [
                tool["parameters"] for tool in tools
            ]
            call = {"type": "function_call", "call_id": f"call_{turn}", **MCP_CALL}
            result = {"type": "function_call_output", "call_id": f"call_{turn}", "output": "one"}
            conversation += [message("assistant", text), call, result]
            talk += [("assistant", text), ("tool", "one")]


async def test_of_many_mcp_tools_only_those_that_are_compiled_have_a_limit() -> None:
    """A forced call of one compiles that one; `required` compiles all of them."""
    tools = [as_chat_tool(tool) for tool in mcp_functions()]
    schemas = [json.dumps(tool["function"]["parameters"]) for tool in tools]
    assert sum(map(len, schemas)) > MAX_SCHEMA_BYTES
    one = {"type": "function", "function": {"name": MCP_CALL["name"]}}
    request = {"model": MODEL, "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    async with before_mock() as client:
        for tool_choice in ("auto", "none", one):
            await client.chat.completions.create(**request, tools=tools, tool_choice=tool_choice)
        with pytest.raises(openai.BadRequestError, match=r"tools\[\d+\]"):
            await client.chat.completions.create(**request, tools=tools, tool_choice="required")


@pytest.mark.parametrize("max_body_bytes", [LONGEST, 2 * LONGEST])
async def test_a_response_to_the_longest_body_is_streamed(max_body_bytes: int) -> None:
    """Two events before the first token, and the last one, repeat the tools."""
    tool = function("f", description="")
    body = {"model": MODEL, "input": "a", "tools": [tool], "stream": True, "max_output_tokens": 4}
    num_bytes = len(json.dumps(body, separators=(",", ":")))
    tool["description"] = "x" * (max_body_bytes - num_bytes)
    async with before_mock(max_body_bytes) as client:
        response, texts = await respond(client, body)
    assert response["tools"][0]["description"] == tool["description"]
    assert len(texts) == 1


async def test_the_tools_of_many_mcp_servers_have_no_limit_but_the_body(served: Served) -> None:
    """100 functions of 20 servers, some 75 KB: each has a long description."""
    servers = [
        {"type": "namespace", "name": f"mcp__{n}", "description": "A server.",
         "tools": [function(f"tool_{k}", "a") for k in range(5)]}
        for n in range(20)
    ]  # fmt: skip
    body = codex_request(FIRST, MODEL, tools=servers)
    assert len(json.dumps(servers)) > 70_000
    assert (await served.http.post(PATH, json=body)).status_code == 200
    body = codex_request(
        FIRST, MODEL, tools=[*servers, {"type": "mcp", "server_url": "http://10.0.0.1"}]
    )
    answer = await served.http.post(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[20].type"
