"""Bad input is refused with an explanation, before the engine sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS
from unit.gateway.conftest import SETTINGS, Serve, Served, chat
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")
JSON = {"content-type": "application/json"}


def assert_error(answer: httpx.Response, status: int, code: str, param: str | None) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"{} {}",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b'{"model": "\xed\xa0\x80"}',
        b'{"model": "\xc0\xaf"}',
        b'{"model": "\\ud800"}',
        b'{"model": "\\ud800 and more text"}',
        b'{"model": "\\udc00"}',
        b'{"\\ud800": 1}',
        b'{"temperature": NaN}',
        b'{"temperature": Infinity}',
        b'{"temperature": -Infinity}',
        b'{"temperature": 1e999}',
        b'{"max_tokens": 01}',
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": "\x00"}',
        b'{"seed": ' + b"9" * 5000 + b"}",
    ],
)
async def test_malformed_json_is_a_400(shared: Served, body: bytes) -> None:
    answer = await shared.http.post(CHAT.path, content=body, headers=JSON)
    assert_error(answer, 400, "invalid_json", None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"model": "tiny", "model": "other"}', "repeated_key"),
        (b'{"model": "tiny", "mod\\u0065l": "other"}', "repeated_key"),
        (b'{"messages": [{"role": "user", "role": "system"}]}', "repeated_key"),
        (b'{"messages": ' + b"[" * 65 + b"]" * 65 + b"}", "too_deeply_nested"),
        (b'{"a": ' * 64 + b"1" + b"}" * 64, None),
        (b'{"a": ' * 65 + b"1" + b"}" * 65, "too_deeply_nested"),
        (b"[" * 50_000 + b"]" * 50_000, "too_deeply_nested"),
        (b"{" + b",".join(b'"k%d":1' % i for i in range(9000)) + b"}", None),
    ],
)
async def test_json_that_parsers_read_differently_is_a_400(
    shared: Served, body: bytes, code: str | None
) -> None:
    answer = await shared.http.post(CHAT.path, content=body, headers=JSON)
    assert answer.status_code == 400
    if code is not None:
        assert_error(answer, 400, code, None)
    else:
        assert answer.json()["error"]["code"] == "unsupported_parameter"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 3}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"n": True}, "n"),
        ({"n": 2**63}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"stop": 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": ["a", 1]}, "stop"),
        ({"stop": "x" * 513}, "stop"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 2**31}, "top_k"),
        ({"seed": 2**63}, "seed"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        (
            {
                "tools": [{"function": {"name": "f", "parameters": "x" * 70_000}}],
                "tool_choice": "required",
            },
            "tools[0].function.parameters",
        ),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": 1}, "tool_choice"),
        ({"response_format": {"x": "y" * 70_000}}, "response_format"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"content": "hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ],
)
async def test_wrong_values_are_a_400_that_names_the_field(
    shared: Served, changes: dict[str, object], param: str
) -> None:
    answer = await shared.http.post(CHAT.path, json=chat(**changes))
    assert_error(answer, 400, "invalid_value", param)
    assert param in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "prompt",
    [None, [], 5, {}, [[]], [1, "a"], ["a", 1], [[1], "a"], [-1], [True], [1.5]],
)
async def test_wrong_prompts_are_a_400(shared: Served, prompt: object) -> None:
    answer = await shared.http.post(COMPLETIONS.path, json={"model": MODEL, "prompt": prompt})
    assert_error(answer, 400, "invalid_value", "prompt")


@pytest.mark.parametrize(
    "name",
    [
        "cache_salt", "priority", "kv_transfer_params", "ec_transfer_params", "vllm_xargs",
        "mm_processor_kwargs", "media_io_kwargs", "chat_template", "chat_template_kwargs",
        "logprob_token_ids",
        "prompt_logprobs", "prompt_embeds", "ignore_eos", "use_beam_search", "request_id",
        "guided_json", "guided_regex", "functions", "never_heard_of", "",
    ],
)  # fmt: skip
async def test_fields_outside_the_allow_list_are_a_400(shared: Served, name: str) -> None:
    answer = await shared.http.post(CHAT.path, json=chat(**{name: 1}))
    assert_error(answer, 400, "unsupported_parameter", name)
    assert "server.granted_fields" in answer.json()["error"]["message"]


async def test_a_misspelt_field_gets_a_suggestion(shared: Served) -> None:
    answer = await shared.http.post(CHAT.path, json=chat(max_token=1))
    assert_error(answer, 400, "unsupported_parameter", "max_token")
    assert answer.json()["error"]["message"].endswith("Did you mean 'max_tokens'?")


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        (COMPLETIONS.path, {"prompt": "a", "echo": True, "logprobs": 20}),
        (COMPLETIONS.path, {"prompt": "a", "echo": True, "logprobs": 0}),
        (CHAT.path, {**chat(), "echo": True}),
    ],
)
async def test_echo_does_not_give_access_to_prompt_logprobs(
    shared: Served, path: str, changes: dict[str, object]
) -> None:
    answer = await shared.http.post(path, json={"model": MODEL, **changes})
    assert_error(answer, 400, "unsupported_parameter", "echo")


@pytest.mark.parametrize("changes", [{"echo": True}, {"echo": False, "logprobs": 3}])
async def test_echo_and_logprobs_pass_separately(
    shared: Served, changes: dict[str, object]
) -> None:
    body = {"model": MODEL, "prompt": "a", **changes}
    assert (await shared.http.post(COMPLETIONS.path, json=body)).status_code == 200


async def test_tools_and_every_tool_choice_pass(shared: Served) -> None:
    function = {"type": "function", "function": {"name": "f"}}
    for choice in ("none", "auto", "required", function):
        answer = await shared.http.post(CHAT.path, json=chat(tools=[function], tool_choice=choice))
        assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video_url", "file", "x", None])
async def test_parts_that_are_not_text_are_a_400(shared: Served, kind: str | None) -> None:
    part = {"type": kind, "image_url": {"url": "http://127.0.0.1/secret"}}
    content = [{"type": "text", "text": "hello"}, part]
    answer = await shared.http.post(
        CHAT.path, json=chat(messages=[{"role": "user", "content": content}])
    )
    assert_error(answer, 400, "unsupported_content", "messages[0].content[1]")


@pytest.mark.parametrize("model", ["other", "TINY", "tiny ", "", "/etc/passwd", "x" * 400])
async def test_an_unknown_model_is_a_404(shared: Served, model: str) -> None:
    answer = await shared.http.post(CHAT.path, json=chat(model=model))
    assert_error(answer, 404, "model_not_found", "model")


async def test_a_prompt_that_cannot_fit_is_refused_at_once(shared: Served) -> None:
    """The context is 2048 tokens: 2048 token ids pass, one more does not."""
    begun = shared.engine.num_begun
    fits = await shared.http.post(COMPLETIONS.path, json={"model": MODEL, "prompt": [7] * 2048})
    assert fits.status_code == 200
    answer = await shared.http.post(COMPLETIONS.path, json={"model": MODEL, "prompt": [7] * 2049})
    assert_error(answer, 400, "context_length_exceeded", "prompt")
    assert shared.engine.num_begun == begun + 1


async def test_a_body_at_the_limit_passes_and_one_byte_more_is_a_413(shared: Served) -> None:
    body = json.dumps(chat()).encode().ljust(SETTINGS.max_body_bytes)
    fits = await shared.http.post(CHAT.path, content=body, headers=JSON)
    assert fits.status_code == 200
    answer = await shared.http.post(CHAT.path, content=body + b" ", headers=JSON)
    assert_error(answer, 413, "body_too_large", None)


async def test_a_chunked_body_beyond_the_limit_is_a_413(shared: Served) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    answer = await shared.http.post(CHAT.path, content=parts(), headers=JSON)
    assert_error(answer, 413, "body_too_large", None)


async def test_a_chunked_body_within_the_limit_passes(shared: Served) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for byte in json.dumps(chat()).encode():
            yield bytes([byte])

    answer = await shared.http.post(CHAT.path, content=parts(), headers=JSON)
    assert answer.status_code == 200


async def test_a_body_that_is_too_slow_is_a_408(serve: Serve) -> None:
    """The rest never comes."""
    async with serve(body_timeout_s=0.3) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")
        writer.write(b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{")
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "body_timeout"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/json", "content-encoding": "br"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {},
    ],
)
async def test_other_encodings_and_types_are_a_415(shared: Served, headers: dict[str, str]) -> None:
    answer = await shared.http.post(CHAT.path, content=b"{}", headers=headers)
    assert_error(answer, 415, "unsupported_media_type", None)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v1/", "/v1/chat/completions/", "/v1%2Fchat/completions", "/v1//completions",
        "/v1/embeddings/", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v2/embed",
        "/v1/score", "/v1/rerank", "/v1/messages", "/v1/audio/transcriptions", "/tokenize",
        "/detokenize", "/invocations", "/pause", "/resume", "/sleep", "/metrics", "/version",
        "/load", "/ping",
        "/docs", "/openapi.json", "/admin/governor", "/admin/replicas", "/dashboard",
        "/v1/load_lora_adapter", "/inference/v1/generate", "/server_info", "/collective_rpc",
        "/reset_prefix_cache", "/v1/chat/completions/batch", "/v1/../metrics",
    ],
)  # fmt: skip
async def test_other_paths_are_a_404(shared: Served, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        answer = await shared.http.request(method, path)
        assert_error(answer, 404, "not_found", None)


@pytest.mark.parametrize("path", [CHAT.path, COMPLETIONS.path, "/v1/models", "/health", "/ready"])
async def test_other_methods_are_a_405(shared: Served, path: str) -> None:
    allowed = {"POST"} if "completions" in path else {"GET", "HEAD"}
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - allowed:
        answer = await shared.http.request(method, path)
        assert_error(answer, 405, "method_not_allowed", None)
        assert set(answer.headers["allow"].split(", ")) == allowed


async def test_no_bad_request_reached_the_engine(shared: Served) -> None:
    """Runs last in this file: the engine got only valid requests, and completed them."""
    counts = await shared.outcomes()
    assert set(counts) <= {"completed", "refused"}
    assert shared.engine.num_begun == counts.get("completed", 0)


@pytest.mark.parametrize(
    ("values", "code"),
    [(b"[]," * 2_500_000, "too_many_containers"), (b"123456," * 1_000_000, "too_many_values")],
)
async def test_a_body_of_millions_of_values_is_refused_before_it_is_complete(
    serve: Serve, values: bytes, code: str
) -> None:
    """Decoding such a body takes 0.4 to 2 s, in which no stream continues."""
    async with serve(max_body_bytes=8 * 1024 * 1024) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % (len(values) + 1) + b'{"model":"tiny","prompt":['
        )
        writer.write(values[: len(values) // 2])
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"}}")
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == code
        assert served.engine.num_begun == 0
