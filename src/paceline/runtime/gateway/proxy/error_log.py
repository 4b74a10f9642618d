"""Describe an engine's error for the log without quoting prompts or answers.

Errors quote what the client sent, or what the engine had generated, in forms that no pattern covers
in full. So the log names the type of error, and its text only with `server.log_prompts`. The
engine's own log has more under the same request id.
"""

from __future__ import annotations

import re

import msgspec

_MAX_BYTES = 500
_KIND = re.compile(r"[A-Za-z_]{1,60}")
"""A type such as InternalServerError or invalid_request_error; no words of a text."""


def describe_error(body: bytes, log_prompts: bool) -> str:
    """The type and size of an error's body; with `log_prompts` its first bytes.

    >>> describe_error(b'{"error": {"type": "InternalServerError", "message": "Hello Ann"}}', False)
    'InternalServerError, 66 bytes (server.log_prompts would show them)'
    """
    if log_prompts:
        return repr(body[:_MAX_BYTES])
    return f"{_kind(body)}, {len(body)} bytes (server.log_prompts would show them)"


def _kind(body: bytes) -> str:
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "no JSON"
    error = parsed.get("error") if isinstance(parsed, dict) else None
    holder = error if isinstance(error, dict) else parsed  # some servers have no inner object
    kind = holder.get("type", holder.get("error_type")) if isinstance(holder, dict) else None
    return kind if isinstance(kind, str) and _KIND.fullmatch(kind) else "no type"
