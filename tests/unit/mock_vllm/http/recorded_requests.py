"""The requests whose answers from vLLM are recorded and compared with the mock server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coding_agents import CODEX_TOOLS, FIRST, THIRD, codex_request

MODEL = "target"
MAX_MODEL_LEN = 1024


@dataclass(frozen=True)
class RecordedRequest:
    """One request. `body` is sent as JSON, `raw` as it is."""

    name: str
    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"
    raw: bytes | None = None
    content_type: str = "application/json"


def _chat(name: str, **body: Any) -> RecordedRequest:
    messages = [{"role": "user", "content": "add two numbers"}]
    base = {"model": MODEL, "messages": messages, "max_tokens": 8, "temperature": 0}
    return RecordedRequest(name, "/v1/chat/completions", {**base, **body})


def _completion(name: str, **body: Any) -> RecordedRequest:
    base = {"model": MODEL, "prompt": "def add(", "max_tokens": 8, "temperature": 0}
    return RecordedRequest(name, "/v1/completions", {**base, **body})


def _response(name: str, **body: Any) -> RecordedRequest:
    base = {"model": MODEL, "input": "add two numbers", "max_output_tokens": 8, "temperature": 0}
    return RecordedRequest(name, "/v1/responses", {**base, **body})


def _codex(name: str, **body: Any) -> RecordedRequest:
    base = {"instructions": "You are a coding agent.", "max_output_tokens": 8, "temperature": 0}
    given = {**base, **body}
    return RecordedRequest(name, "/v1/responses", codex_request(given.pop("input"), MODEL, **given))


_USAGE = {"include_usage": True}
_EVERY_USAGE = {"include_usage": True, "continuous_usage_stats": True}

ANSWERS = (
    _chat("chat stream", stream=True),
    _chat("chat stream with ids", stream=True, return_token_ids=True),
    _chat("chat stream with usage", stream=True, stream_options=_USAGE),
    _chat("chat stream with all", stream=True, return_token_ids=True, stream_options=_EVERY_USAGE),
    _chat("chat stream of two", stream=True, n=2, temperature=1, seed=1),
    _chat("chat"),
    _chat("chat with ids", return_token_ids=True),
    _chat("chat with max_completion_tokens", max_tokens=None, max_completion_tokens=3),
    _completion("completion stream", stream=True),
    _completion("completion stream with ids", stream=True, return_token_ids=True),
    _completion("completion stream with usage", stream=True, stream_options=_USAGE),
    _completion(
        "completion stream with all",
        stream=True,
        return_token_ids=True,
        stream_options=_EVERY_USAGE,
    ),
    _completion(
        "completion stream of a list", stream=True, prompt=["a", "b"], return_token_ids=True
    ),
    _completion("completion stream that echoes", stream=True, echo=True),
    _completion("completion"),
    _completion("completion with ids", return_token_ids=True),
    _completion("completion of token ids", prompt=[1, 2, 3], return_token_ids=True),
    _completion("completion of lists of ids", prompt=[[1, 2], [3]]),
    _completion("completion of two", n=2, temperature=1, seed=1),
    _completion("completion that echoes", echo=True),
    _response("response stream", stream=True),
    _response("response stream with instructions", stream=True, instructions="Be short."),
    _response("response"),
    _response("response of messages", input=[{"role": "user", "content": "add two numbers"}]),
    _response("response without a tool", tools=[], tool_choice="auto"),
    *[
        _response(f"response with a tool of type {tool['type']}", tools=[tool])
        for tool in CODEX_TOOLS
        if tool["type"] in ("custom", "namespace")
    ],
    _codex("third turn of Codex", input=THIRD),
    _codex("third turn of Codex, not streamed", input=THIRD, stream=False),
    RecordedRequest("models", "/v1/models", method="GET"),
    RecordedRequest("version", "/version", method="GET"),
    RecordedRequest("health", "/health", method="GET"),
    RecordedRequest("ping", "/ping", method="GET"),
    RecordedRequest("tokenize", "/tokenize", {"model": MODEL, "prompt": "ab"}),
    RecordedRequest("tokenize strings", "/tokenize", {"prompt": "ab", "return_token_strs": True}),
    RecordedRequest(
        "tokenize chat", "/tokenize", {"messages": [{"role": "user", "content": "ab"}]}
    ),
    RecordedRequest("detokenize", "/detokenize", {"model": MODEL, "tokens": [5, 6]}),
)

REFUSALS = (
    _completion("unknown model", model="nobody"),
    _chat("unknown model of a chat", model="nobody"),
    _completion("prompt of ids beyond the context", prompt=[5] * (MAX_MODEL_LEN + 100)),
    _completion("prompt of ids one beyond the context", prompt=[5] * (MAX_MODEL_LEN + 1)),
    _completion("prompt that fills the context", prompt=[5] * MAX_MODEL_LEN),
    _completion("max_tokens beyond the context", max_tokens=MAX_MODEL_LEN + 1),
    _chat("max_tokens of a chat beyond the context", max_tokens=MAX_MODEL_LEN + 1),
    _chat("max_completion_tokens beyond", max_completion_tokens=MAX_MODEL_LEN + 1),
    _completion("max_tokens 0", max_tokens=0),
    _completion("max_tokens negative", max_tokens=-1),
    _completion("max_tokens a word", max_tokens="many"),
    _completion("temperature 3", temperature=3),
    _completion("temperature negative", temperature=-1),
    _completion("temperature a word", temperature="hot"),
    _completion("top_p 0", top_p=0),
    _completion("min_p 2", min_p=2, temperature=1),
    _completion("presence_penalty 3", presence_penalty=3),
    _completion("two greedy choices", n=2),
    _completion("no choices", n=0, temperature=1),
    _completion("min_tokens beyond max_tokens", min_tokens=9),
    _completion("min_tokens negative", min_tokens=-1),
    _completion("empty stop string", stop=[""]),
    _completion("stop a number", stop=5),
    _completion("unknown token", prompt=[99_999_999]),
    _completion("no prompt", prompt=None),
    _completion("empty prompt", prompt=""),
    _completion("prompt a number", prompt=5),
    _completion("seed a word", seed="x"),
    _completion("stream_options without stream", stream_options=_USAGE),
    _completion("min_p while drafting", min_p=0.1, temperature=1),
    _completion("logit_bias while drafting", logit_bias={"5": 1}),
    _response("response of nobody", model="nobody"),
    _codex(
        "encrypted reasoning",
        input=[*FIRST, {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}],
    ),
    _codex(
        "search that another server ran",
        input=[
            *FIRST,
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "x"},
            },
        ],
    ),
    _codex(
        "custom tool with a grammar",
        input=FIRST,
        tools=[
            {
                "type": "custom",
                "name": "apply_patch",
                "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
            }
        ],
    ),
    _response("max_output_tokens beyond the context", max_output_tokens=MAX_MODEL_LEN + 1),
    RecordedRequest("no input", "/v1/responses", {"model": MODEL}),
    RecordedRequest("no messages", "/v1/chat/completions", {"model": MODEL}),
    _chat("messages a word", messages="hello"),
    _chat("empty messages", messages=[]),
    RecordedRequest("no JSON", "/v1/completions", raw=b'{"model": '),
    RecordedRequest("a list", "/v1/completions", raw=b"[1]"),
    RecordedRequest("not said to be JSON", "/v1/completions", raw=b"{}", content_type="text/plain"),
    RecordedRequest("no such route", "/v1/nothing", method="GET"),
    RecordedRequest("wrong method", "/v1/completions", method="GET"),
    RecordedRequest("tokenize of nobody", "/tokenize", {"model": "nobody", "prompt": "a"}),
    RecordedRequest("detokenize a word", "/detokenize", {"tokens": "a"}),
)
