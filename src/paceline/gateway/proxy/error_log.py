"""What of an engine's error may stand in the log?

Errors quote what the client sent, or what the engine was writing, in forms that no pattern knows
in full. So the log names the kind of error; the words only where the operator asks for them
(`server.log_prompts`). The engine's own log has more under the same request id.
"""

from __future__ import annotations

import re

import msgspec

_MAX_BYTES = 500
_KIND = re.compile(r"[A-Za-z_]{1,60}")
"""A type such as InternalServerError or invalid_request_error; no words of a text."""


def describe_error(body: bytes, log_prompts: bool) -> str:
    """An error's body in a form that is fit for the log.

    >>> describe_error(b'{"error": {"type": "InternalServerError", "message": "Dear Ann"}}', False)
    'InternalServerError, 65 bytes (server.log_prompts would show them)'
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
