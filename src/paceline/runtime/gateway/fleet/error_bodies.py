"""Extract the message and the offending field from the error body of any supported server.

A pure decision on bytes. `proxy.engine_errors` decides what a client may see of it, and with which
status. Tests pin the shapes to the samples in `tests/unit/gateway/fleet/data/dialects`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_MAX_PLAIN_CHARS = 2000
"""Separates error messages from whole pages. Chosen empirically."""

_FIELDS_OF_TGI = {"max_new_tokens": "max_tokens", "inputs": "prompt"}
"""TGI's messages name the fields of its own API; OpenAI clients sent these instead. A message that
names both is blamed on `max_tokens`, because the answer can be made shorter."""

_TGI_STATUSES = (
    ("Model is overloaded", 429),
    ("Request failed during generation", 500),
    ("Incomplete generation", 500),
    ("Stream event serialization error", 500),
)
"""How messages of TGI's `InferError` begin, with the status that clients understand. TGI 3.3 sends
424 for its own fault, and 422 with every error in a stream, its own faults and overload included:
`impl From<InferError>` in its `router/src/server.rs`, `into_openai_event` in `infer/mod.rs`."""

_VALIDATION_ERROR = re.compile(r"\d+ validation errors?:")
"""How llama-cpp-python's message about a wrong field begins; it sends it with a 500."""

_CONTEXT_ERROR = re.compile(
    r"maximum context length|max_model_len|longer than the maximum model length"  # vLLM
    r"|longer than the model's context length"  # SGLang
    r"|exceeds? the available context size"  # llama.cpp
    r"|`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than"  # TGI
)


def error_message_of(dialect: str, status: int, body: bytes) -> tuple[str, str | None]:
    """The server's error message and the field it blames; ("", None) when there is neither.

    Servers use these shapes, some of them several:
    `{"error": {"message", "param"}}` vLLM, llama.cpp, OpenAI, newer TGI streams;
    `{"error": "…"}` TGI, and trtllm-serve for validation errors;
    `{"message", "param"}` SGLang, trtllm-serve, older vLLM;
    `{"detail": "…"}` or `{"detail": [{"loc", "msg"}]}` Triton and any FastAPI server;
    plain text with a 4xx: TGI for JSON of the wrong form. Plain text with a 5xx is ignored: it
    comes from a proxy or is a stack trace.
    """
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (_plain_text(body) if status < 500 else "", None)
    if not isinstance(parsed, dict):
        return (parsed if isinstance(parsed, str) else "", None)
    message, param = _of_object(parsed)
    if dialect == "tgi":
        return message, next(
            (ours for name, ours in _FIELDS_OF_TGI.items() if name in message), param
        )
    return message, param


def status_meant(dialect: str, status: int, message: str) -> int:
    """The status that the server means, where its status says something else.

    >>> status_meant("tgi", 424, "Request failed during generation: Server error: transport error")
    500
    >>> status_meant("vllm", 424, "Request failed during generation: ...")
    424
    """
    if dialect == "llamacpp-python" and status == 500 and _VALIDATION_ERROR.match(message):
        return 400
    if dialect != "tgi":
        return status
    return next((meant for start, meant in _TGI_STATUSES if message.startswith(start)), status)


def is_context_error(message: str) -> bool:
    """Whether the message says that the prompt, or prompt plus answer, exceeds the context."""
    return _CONTEXT_ERROR.search(message) is not None


def _of_object(body: Mapping[str, object]) -> tuple[str, str | None]:
    error = body.get("error", body)
    if isinstance(error, str):
        return error, None
    if not isinstance(error, dict):
        return "", None
    message, param = error.get("message"), error.get("param")
    if isinstance(message, str) and message:
        return message, param if isinstance(param, str) and param else None
    return _of_detail(error.get("detail"))


def _of_detail(detail: object) -> tuple[str, str | None]:
    if isinstance(detail, str):
        return detail, None
    errors = (
        [error for error in detail if isinstance(error, dict)] if isinstance(detail, list) else []
    )
    messages = [error["msg"] for error in errors if isinstance(error.get("msg"), str)]
    field = _field_of(errors[0].get("loc") if errors else None)
    return "; ".join(dict.fromkeys(messages[:3])), field


def _field_of(location: object) -> str | None:
    """The field of a FastAPI location such as ["body", "messages", 0, "role"]."""
    if not isinstance(location, list):
        return None
    return ".".join(str(part) for part in location if part != "body") or None


def _plain_text(body: bytes) -> str:
    """The body if it is a short text; empty for an HTML page or binary data."""
    text = body.decode("utf-8", errors="replace").strip()
    is_sentence = len(text) <= _MAX_PLAIN_CHARS and not text.startswith("<") and "�" not in text
    return text if is_sentence else ""
