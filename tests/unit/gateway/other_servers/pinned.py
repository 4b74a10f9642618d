"""Answers of servers that do not run here, written after their source; none is a recording.

| server | version | source |
|---|---|---|
| SGLang | 0.5.23 | `sglang/srt/entrypoints/openai/`: `serving_chat.py`, `serving_completions.py`, `serving_base.py`, `sse_utils.py` of the package |
| TGI | 3.3.7 | `router/src/server.rs`, `chat.rs`, `infer/mod.rs` of the tag `v3.3.7` |
| Triton | 2.73.0dev, commit e1db8a6 | `python/openai/openai_frontend/engine/triton_engine.py`, `frontend/fastapi/routers/chat.py` |

Texts, ids, times and numbers are made up; fields, their order, and the order of events are those of
the source.
"""  # noqa: E501

from __future__ import annotations

DONE = b"data: [DONE]\n\n"

_SGLANG_HEAD = (
    b'data: {"id":"5e1f","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{'
    b'"index":0,"delta":{"reasoning_content":null'
)


def _sglang_chunk(delta: bytes, finish_reason: bytes = b"null", stop: bytes = b"null") -> bytes:
    end = b'},"logprobs":null,"finish_reason":%b,"matched_stop":%b}]}\n\n'
    return _SGLANG_HEAD + delta + end % (finish_reason, stop)


SGLANG_CHAT = b"".join(
    (
        _sglang_chunk(b',"role":"assistant","content":""'),
        _sglang_chunk(b',"content":"def "'),
        _sglang_chunk(b',"content":"f(x"'),
    )
)
"""The beginning of an answer."""

SGLANG_END = _sglang_chunk(b"", b'"stop"', b"151645")

SGLANG_USAGE = (
    b'data: {"id":"5e1f","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[],'
    b'"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2,'
    b'"prompt_tokens_details":null,"reasoning_tokens":0}}\n\n'
)

SGLANG_ABORTED = _sglang_chunk(b"", b'"abort"')
"""After `/abort_request`, for example when the server ends."""

SGLANG_TIMED_OUT = (
    b'data: {"error": {"object": "error", "message": "Request timed out in the queue.", '
    b'"type": "SERVICE_UNAVAILABLE", "param": null, "code": 503}}\n\n'
)

SGLANG_COMPLETION = (
    b'data: {"id":"5e1f","object":"text_completion","created":1,"choices":[{"index":0,"text":"def "'
    b',"logprobs":null,"finish_reason":null,"matched_stop":null}],"model":"tiny","usage":null}\n\n'
    b'data: {"id":"5e1f","object":"text_completion","created":1,"choices":[{"index":0,"text":"f",'
    b'"logprobs":null,"finish_reason":"length","matched_stop":null}],"model":"tiny",'
    b'"usage":null}\n\n'
)

SGLANG_ERROR = {
    "object": "error",
    "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}

_TGI_CHUNK = (
    b'data: {"object":"chat.completion.chunk","id":"","created":1,"model":"tiny",'
    b'"system_fingerprint":"3.3.7-native","choices":[{"index":0,"delta":{"role":"assistant",'
    b'"content":"%b"},"logprobs":null,"finish_reason":%b}],"usage":null}\n\n'
)
TGI_CHAT = _TGI_CHUNK % (b"def ", b"null") + _TGI_CHUNK % (b"f(x", b"null")
"""The beginning of an answer."""

TGI_END = _TGI_CHUNK % (b"", b'"stop"')


def tgi_error_event(message: str) -> bytes:
    """`into_openai_event`: every error of a stream has the status 422, and `[DONE]` follows."""
    return b'data: {"error":{"message":"%b","http_status_code":422}}\n\n' % message.encode() + DONE


TGI_OVERLOADED = "Model is overloaded"
TGI_TOO_LONG = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 "
    "`inputs` tokens and 200 `max_new_tokens`"
)
TGI_FAULT = "Request failed during generation: Server error: transport error"
TGI_INCOMPLETE = "Incomplete generation stream"

_TRITON_CHUNK = (
    b'data: {"id":"cmpl-1","choices":[{"delta":{%b},"index":0,"finish_reason":%b}],"created":1,'
    b'"model":"tiny","system_fingerprint":null,"object":"chat.completion.chunk"}\n\n'
)
TRITON_CHAT = (
    _TRITON_CHUNK % (b'"role":"assistant","content":""', b"null")
    + _TRITON_CHUNK % (b'"content":"def "', b"null")
    + _TRITON_CHUNK % (b'"content":"f(x"', b"null")
)
"""The beginning of an answer. The first event is sent before the prompt is computed."""

TRITON_END = _TRITON_CHUNK % (b'"content":""', b'"stop"')
