"""What does a server's error body say, whichever server it is?

A decision on bytes. What of it a client may read, and under which status, is for `engine_errors`.
The shapes are pinned by samples, `tests/unit/gateway/fleet/data/dialects`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_MAX_PLAIN_CHARS = 2000
"""Chosen by hand: longer than a sentence of an error, shorter than a page that is none."""

_FIELDS_OF_TGI = {"max_new_tokens": "max_tokens", "inputs": "prompt"}
"""TGI's messages name the fields of its own API, which OpenAI's clients never sent. Where both are
too much together, it is the answer that can be made shorter."""

_CONTEXT_ERROR = re.compile(
    r"maximum context length|max_model_len|longer than the maximum model length"  # vLLM
    r"|longer than the model's context length"  # SGLang
    r"|exceeds? the available context size"  # llama.cpp
    r"|`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than"  # TGI
)


def error_message_of(dialect: str, status: int, body: bytes) -> tuple[str, str | None]:
    """What the server says, and the field that it blames; ("", None) when it says nothing.

    The shapes in use, of which a server may have several:
    `{"error": {"message", "param"}}` vLLM, llama.cpp, OpenAI, newer TGI streams;
    `{"error": "…"}` TGI, trtllm-serve when it validates;
    `{"message", "param"}` SGLang, trtllm-serve, older vLLM;
    `{"detail": "…"}` or `{"detail": [{"loc", "msg"}]}` Triton, and FastAPI anywhere;
    plain text: TGI on JSON of the wrong form, with a 4xx.
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


def is_context_error(message: str) -> bool:
    """Whether the message says that prompt, or prompt and answer, are longer than the context."""
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
    faults = (
        [fault for fault in detail if isinstance(fault, dict)] if isinstance(detail, list) else []
    )
    said = [fault["msg"] for fault in faults if isinstance(fault.get("msg"), str)]
    return "; ".join(dict.fromkeys(said[:3])), _field_of(faults[0].get("loc") if faults else None)


def _field_of(location: object) -> str | None:
    """FastAPI locates a fault as ["body", "messages", 0, "role"]."""
    if not isinstance(location, list):
        return None
    return ".".join(str(part) for part in location if part != "body") or None


def _plain_text(body: bytes) -> str:
    """A sentence, but no page of a proxy's and no binary."""
    text = body.decode("utf-8", errors="replace").strip()
    is_sentence = len(text) <= _MAX_PLAIN_CHARS and not text.startswith("<") and "�" not in text
    return text if is_sentence else ""
