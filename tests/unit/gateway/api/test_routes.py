"""Embeddings, responses and models work with OpenAI's client, within the limits of each route."""

from __future__ import annotations

import json

import openai
import pytest

from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, Route
from unit.gateway.conftest import Served, chat
from unit.gateway.fake_engine import MODEL, response_events

pytestmark = pytest.mark.asyncio(loop_scope="module")


def client_of(served: Served) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{served.gateway.url}/v1", api_key="unused", max_retries=0, timeout=60
    )


async def test_embeddings_pass(served: Served) -> None:
    """Without `encoding_format` the client requests base64, and also accepts lists."""
    answer = await client_of(served).embeddings.create(model=MODEL, input=["a", "b"])
    assert answer.data[0].embedding == [0.5, -0.25]
    assert json.loads(served.engine.bodies[0])["encoding_format"] == "base64"


async def test_responses_pass_plain_and_streamed(served: Served) -> None:
    client = client_of(served)
    plain = await client.responses.create(model=MODEL, input="hello")
    assert plain.output_text == served.engine.text
    stream = await client.responses.create(model=MODEL, input="hello", stream=True)
    events = [event async for event in stream]
    assert [e.delta for e in events if e.type == "response.output_text.delta"] == (
        served.engine.tokens
    )
    assert events[-1].type == "response.completed"
    assert await served.outcomes() == {"completed": 2}


async def test_a_response_that_breaks_off_ends_with_an_error(served: Served) -> None:
    served.engine.mode = "raw"
    served.engine.raw = b"".join(response_events(["a", "b"])[:-1])
    stream = await client_of(served).responses.create(model=MODEL, input="x", stream=True)
    with pytest.raises(openai.APIError, match="ended before it was complete"):
        async for _ in stream:
            pass
    assert await served.outcomes() == {"broken": 1}


async def test_the_error_event_of_a_response_has_a_name_and_the_next_number(
    served: Served,
) -> None:
    served.engine.mode = "raw"
    served.engine.raw = b"".join(response_events(["a", "b"])[:-1])
    body = {"model": MODEL, "input": "x", "stream": True}
    answer = await served.http.post(RESPONSES.path, json=body)
    name, data = answer.text.rstrip("\n").split("\n\n")[-1].split("\n")
    error = json.loads(data.removeprefix("data: "))
    assert name == "event: error"
    assert (error["type"], error["sequence_number"]) == ("error", 4)
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert error["code"] == error["error"]["code"] == "engine_unavailable"


async def test_a_response_that_breaks_off_before_its_first_token_has_not_begun(
    served: Served,
) -> None:
    """vLLM sends the first events before it computes the prompt: the request can be repeated."""
    served.engine.mode = "raw"
    served.engine.raw = b"".join(response_events(["a", "b"])[:2])
    body = {"model": MODEL, "input": "x", "stream": True}
    answer = await served.http.post(RESPONSES.path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_unavailable")
    assert await served.outcomes() == {"broken": 1}


@pytest.mark.parametrize(
    "error",
    [
        b'event: error\ndata: {"type":"error","code":"x","message":"boom at /opt/x"}\n\n',
        b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"message":'
        b'"boom at /opt/x"}}}\n\n',
        b'data: {"error":{"message":"boom at /opt/x","code":500}}\n\n',
    ],
)
async def test_an_engines_error_in_a_response_is_converted(served: Served, error: bytes) -> None:
    served.engine.mode = "raw"
    served.engine.raw = response_events(["a"])[0] + error
    body = {"model": MODEL, "input": "x", "stream": True}
    answer = await served.http.post(RESPONSES.path, json=body)
    assert "/opt" not in answer.text
    assert '"code":"engine_error"' in answer.text
    assert await served.outcomes() == {"engine_error": 1}


async def test_the_last_event_of_a_response_may_be_long(served: Served) -> None:
    """It repeats the whole answer."""
    served.engine.tokens = ["x" * 2_000_000]
    body = {"model": MODEL, "input": "x", "stream": True}
    answer = await served.http.post(RESPONSES.path, json=body)
    assert answer.content == b"".join(response_events(served.engine.tokens))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, {"detail": "Not Found"}),
        (404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}}),
        (501, {"error": {"message": "The model does not support Embeddings API", "code": 501}}),
        (501, {"error": {"message": "This server does not support embeddings. Start it with ..."}}),
        (405, {"detail": "Method Not Allowed"}),
        (404, {}),
    ],
)
async def test_a_route_that_the_engine_lacks_is_a_404_and_not_retried(
    served: Served, status: int, error: dict[str, object]
) -> None:
    """Clients would retry a 501, although it is as permanent as a 404."""
    served.engine.mode = "refuse"
    served.engine.refusal = (status, error)
    client = openai.AsyncOpenAI(
        base_url=f"{served.gateway.url}/v1", api_key="unused", max_retries=2, timeout=60
    )
    with pytest.raises(openai.NotFoundError) as caught:
        await client.embeddings.create(model=MODEL, input="a")
    assert caught.value.code == "route_not_served"
    assert "/v1/embeddings" in caught.value.message
    assert served.engine.num_begun == 1


@pytest.mark.parametrize(
    ("route", "fields", "param"),
    [
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (RESPONSES, {"conversation": "conv_1"}, "conversation"),
        (RESPONSES, {"prompt": {"id": "p"}}, "prompt"),
        (RESPONSES, {"n": 2}, "n"),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": "http://10.0.0.1"}]}, "tools[0].type"),
        (RESPONSES, {"tools": [{"type": "web_search_preview"}]}, "tools[0].type"),
        (RESPONSES, {"input": []}, "input"),
        (RESPONSES, {"input": {}}, "input"),
        (RESPONSES, {"input": ["x"]}, "input[0]"),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        (RESPONSES, {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": "http://10.0.0.1"}]}]}, "input[0].content[0]"),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": [
            {"type": "input_file", "file_url": "http://10.0.0.1"}]}]}, "input[0].output[0]"),
        (RESPONSES, {"instructions": 5}, "instructions"),
        (RESPONSES, {"max_output_tokens": 0}, "max_output_tokens"),
        (RESPONSES, {"text": {"format": {"schema": {"x": "y" * 70_000}}}}, "text"),
        (RESPONSES, {"cache_salt": "x"}, "cache_salt"),
        (RESPONSES, {"mm_payload": "tensors"}, "mm_payload"),
        (EMBEDDINGS, {"input": None}, "input"),
        (EMBEDDINGS, {"input": ["a"] * 2049}, "input"),
        (EMBEDDINGS, {"input": [[1], [-1]]}, "input"),
        (EMBEDDINGS, {"encoding_format": "bytes"}, "encoding_format"),
        (EMBEDDINGS, {"dimensions": 0}, "dimensions"),
        (EMBEDDINGS, {"stream": True}, "stream"),
        (EMBEDDINGS, {"n": 2}, "n"),
        (EMBEDDINGS, {"messages": []}, "messages"),
        (EMBEDDINGS, {"temperature": 0}, "temperature"),
        (CHAT, {"tools": [{"type": "custom"}]}, "tools[0].type"),
        (CHAT, {"input": "x"}, "input"),
        (COMPLETIONS, {"best_of": 2}, "best_of"),
    ],
)  # fmt: skip
async def test_fields_of_other_routes_are_refused(
    served: Served, route: Route, fields: dict[str, object], param: str
) -> None:
    body: dict[str, object] = {"model": MODEL, route.prompt_param: "x"}
    answer = await served.http.post(
        route.path, json={**(chat() if route is CHAT else body), **fields}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert served.engine.num_begun == 0


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        (RESPONSES, {"input": [{"role": "user", "content": "a"}], "instructions": "b"}),
        (RESPONSES, {"input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "summary": [], "content": None},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "2"}]}),
        (RESPONSES, {"tools": [{"type": "function", "name": "f", "parameters": {}}],
                     "tool_choice": {"type": "function", "name": "f"}, "background": False}),
        (RESPONSES, {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}),
        (RESPONSES, {"reasoning": {"effort": "low"}, "truncation": "auto", "store": True}),
        (EMBEDDINGS, {"input": ["a"] * 2048, "dimensions": 2, "user": "u"}),
        (EMBEDDINGS, {"input": [[1, 2], [3]], "encoding_format": "float"}),
        (EMBEDDINGS, {"input": [1, 2]}),
        (CHAT, {"tools": [{"function": {"name": "f"}}]}),
        (COMPLETIONS, {"best_of": 1}),
    ],
)  # fmt: skip
async def test_requests_as_clients_send_them_pass(
    served: Served, route: Route, fields: dict[str, object]
) -> None:
    body: dict[str, object] = {"model": MODEL, route.prompt_param: "x"}
    answer = await served.http.post(
        route.path, json={**(chat() if route is CHAT else body), **fields}
    )
    assert answer.status_code == 200, answer.text


async def test_one_model_is_found_by_its_id(served: Served) -> None:
    model = await client_of(served).models.retrieve(MODEL)
    assert (model.id, model.object) == (MODEL, "model")
    with pytest.raises(openai.NotFoundError) as caught:
        await client_of(served).models.retrieve("org/other")
    assert caught.value.code == "model_not_found"


async def test_a_model_id_may_hold_a_slash(served: Served) -> None:
    first = served.source.current[0]
    served.source.current = [type(first)(name="r0", address=first.address, model="org/model",
                                         state="ready")]  # fmt: skip
    model = await client_of(served).models.retrieve("org/model")
    assert model.id == "org/model"


async def test_a_model_can_only_be_read(served: Served) -> None:
    answer = await served.http.delete(f"/v1/models/{MODEL}")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
