"""Errors of engines reach the client in the gateway's form, without internals."""

from __future__ import annotations

import json
import time

import openai
import pytest

from paceline.runtime.gateway.proxy.engine_errors import problem_of, scrub
from paceline.runtime.gateway.requests.routes import COMPLETIONS
from unit.gateway.conftest import Served, chat
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAT = "/v1/chat/completions"


def vllm_error(message: str, code: int = 400, param: str | None = None) -> dict[str, object]:
    """As vLLM 0.32 writes it: the code is an integer."""
    return {"error": {"message": message, "type": "BadRequestError", "param": param, "code": code}}


CONTEXT = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least "
    "2049 input tokens, which exceeds this limit even without any output tokens. Please reduce "
    "the length of the input prompt. (parameter=input_tokens, value=2049)"
)
SPECULATION = (
    "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
)
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
PYDANTIC = (
    "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.seed', 'msg': 'Input should be a "
    "valid integer', 'input': 'SECRET'}"
)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, vllm_error(CONTEXT, param="input_tokens"),
         (400, "context_length_exceeded", "messages")),
        (400, vllm_error("max_tokens=9999 cannot be greater than max_model_len=2048.",
                         param="max_tokens"), (400, "context_length_exceeded", "max_tokens")),
        (400, vllm_error(SPECULATION), (400, "unsupported_parameter", "min_p")),
        (400, vllm_error(PYDANTIC, param="body.seed"), (400, "invalid_value", "seed")),
        (422, {"detail": "no"}, (400, "invalid_value", None)),
        (501, vllm_error("not here", 501), (400, "invalid_value", None)),
        (404, vllm_error("no such thing", 404), (404, "not_found", None)),
        (429, vllm_error("slow down", 429), (429, "rate_limited", None)),
        (401, {"error": "Unauthorized"}, (503, "engine_misdirected", None)),
        (500, vllm_error("boom at /opt/x/y.py", 500), (500, "engine_error", None)),
        (500, vllm_error(DEAD, 500), (503, "engine_unavailable", None)),
        (502, {"detail": "boom"}, (503, "engine_unavailable", None)),
        (503, vllm_error("dead", 503), (503, "engine_unavailable", None)),
    ],
)  # fmt: skip
async def test_engine_errors_become_ours(
    served: Served, status: int, error: dict[str, object], expected: tuple[int, str, str | None]
) -> None:
    served.engine.mode = "refuse"
    served.engine.refusal = (status, error)
    answer = await served.http.post(CHAT, json=chat(stream=True, min_p=0.1))
    shown = answer.json()["error"]
    assert (answer.status_code, shown["code"], shown["param"]) == expected
    assert set(shown) == {"message", "type", "param", "code"}
    assert shown["message"]
    for internal in ("SECRET", "parameter=", "/opt", "boom"):
        assert internal not in shown["message"]
    assert ("retry-after" in answer.headers) is (expected[0] in (429, 503))
    assert answer.headers.get("x-should-retry") == ("false" if expected[0] == 500 else None)
    kind = "engine_error" if expected[0] >= 500 else "engine_refused"
    kind = "misdirected" if expected[1] == "engine_misdirected" else kind
    assert await served.outcomes() == {kind: 1}


async def test_a_request_that_trips_a_live_engine_is_not_sent_again_by_the_client(
    served: Served,
) -> None:
    """OpenAI's client would by itself try three times."""
    served.engine.mode = "refuse"
    served.engine.refusal = (500, vllm_error("list index out of range", 500))
    client = openai.AsyncOpenAI(
        base_url=f"{served.gateway.url}/v1", api_key="unused", max_retries=2, timeout=60
    )
    with pytest.raises(openai.InternalServerError, match="likely to fail again"):
        await client.completions.create(model=MODEL, prompt="def f")
    assert served.engine.num_begun == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"error": 5}', b"[" * 100_000])
async def test_errors_that_are_no_json_are_translated_too(body: bytes) -> None:
    problem = problem_of(400, body, COMPLETIONS, frozenset(), 5)
    assert (problem.status, problem.code) == (400, "invalid_value")
    assert "did not say why" in problem.message


async def test_a_refusal_in_plain_text_is_passed_on() -> None:
    """TGI answers so to JSON of the wrong form."""
    problem = problem_of(422, b"Failed to parse at line 1", COMPLETIONS, frozenset(), 5, "tgi")
    assert (problem.status, problem.message) == (400, "Failed to parse at line 1")


async def test_a_context_that_is_too_short_is_reported_for_every_server() -> None:
    body = b'{"error":{"code":400,"message":"the request exceeds the available context size"}}'
    problem = problem_of(400, body, COMPLETIONS, frozenset(), 5, "llamacpp")
    assert problem.code == "context_length_exceeded"


async def test_messages_lose_paths_addresses_and_traces() -> None:
    shown = scrub(
        'bad <object at 0x7f00>\n  File "/a/b.py", line 3, in f\n    x()\n see /usr/lib/x.so and '
        "http://10.0.0.1:8000/x, and/or 1/2"
    )
    assert shown == "bad <object>\n see <path> and <address> and/or 1/2"
    assert len(scrub("x" * 5000)) == 1001


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("open /root/.cache/hf/model.bin failed", "open <path> failed"),
        ("file:/opt/models/x missing", "file:<path> missing"),
        ("key='/opt/models/x'", "key='<path>'"),
        ("~/.cache/huggingface/hub is full", "<path> is full"),
        (r"C:\Users\ann\model.bin is gone", "<path> is gone"),
        ("s3://bucket/weights failed", "<address> failed"),
        ("tcp://10.1.2.3:5555 closed", "<address> closed"),
        ("worker 10.1.2.3 and 10.1.2.4:8000 died", "worker <address> and <address> died"),
        ("cannot reach engine-0.internal:8000", "cannot reach <address>"),
        ("cannot reach localhost:8000", "cannot reach <address>"),
        ("cannot reach [fd00::1]:8000", "cannot reach <address>"),
        ("wrong API key: sk-abcdefghijklmnop1234", "wrong API key: <key>"),
        ("header Bearer abc.def was refused", "header <key> was refused"),
        ("no access with hf_abcdefghijklmnopqrst", "no access with <key>"),
        (
            "1 validation error for Request\nseed\n  Input should be a valid integer "
            "[type=int_parsing, input_value='SECRET, [x]', input_type=str]\n    For further "
            "information visit https://errors.pydantic.dev/2.13/v/int_parsing",
            "1 validation error for Request\nseed\n  Input should be a valid integer",
        ),
        ("too long (parameter=input_text, value=SECRET) of it", "too long"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    x()\nBad: y",
         "Bad: y"),
        # what says something to the client stays
        ("temperature must be in [0, 2]; and/or 1/2, got 0.5: see /v1", None),
        ("expected `</think>` or <|im_end|>, at messages[0].content", None),
        ("value 1.5.2 is no version; ratio is 3:20, the time 12:30", None),
    ],
)  # fmt: skip
async def test_what_belongs_to_the_engine_is_taken_out(message: str, shown: str | None) -> None:
    assert scrub(message) == (message if shown is None else shown)


@pytest.mark.parametrize("filler", [" ", "\n", "/a", "a.", "[", ":", "(parameter=", " [type=a, "])
async def test_scrubbing_takes_little_time_whatever_the_text(filler: str) -> None:
    """An engine may quote a long prompt; blanks alone once took time by the square of length."""
    began_s = time.process_time()
    scrub(filler * (256_000 // len(filler)))
    assert time.process_time() - began_s < 0.5


@pytest.mark.parametrize(
    ("message", "code"), [(DEAD, "engine_unavailable"), ("boom at /opt/x/y.py", "engine_error")]
)
async def test_an_error_inside_a_stream_is_put_into_our_shape(
    served: Served, message: str, code: str
) -> None:
    served.engine.mode = "raw"
    error = json.dumps(vllm_error(message, 500)).encode()
    token = b'data: {"choices":[{"delta":{"content":"a"}}]}'
    served.engine.raw = token + b"\n\ndata: " + error + b"\n\ndata: [DONE]\n\n"
    answer = await served.http.post(CHAT, json=chat(stream=True, presence_penalty=1))
    first, shown = answer.text.rstrip("\n").split("\n\n")
    assert first.encode() == token
    assert json.loads(shown.removeprefix("data: "))["error"]["code"] == code
    assert "/opt" not in shown
    assert await served.outcomes() == {"engine_error": 1}
