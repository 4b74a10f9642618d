"""Check a request to change /admin/recording: POST starts or stops, DELETE deletes.

The engines carry the commands out and keep the file; a command never carries a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.runtime.gateway.http.errors import invalid, refuse_unknown_fields, shown

_LIMITS = ("max_bytes", "max_seconds")
_VARY = "vary_draft_length"
RECORDING_FIELDS = ("action", *_LIMITS, _VARY)
_MAX_LIMIT = 2**53
"""Far above any disk; up to here JSON holds integers exactly."""
_FIELDS = {"start": RECORDING_FIELDS, "stop": ("action",)}


def recording_command(body: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the command for the engines; `body` is that of a POST, None for a DELETE.

    Raises a `Refusal` with a 400 if it is invalid. The engines check the numbers.
    """
    if body is None:
        return {"op": "record", "action": "delete"}
    action = body.get("action")
    if not isinstance(action, str) or action not in _FIELDS:
        raise invalid(f"action is {shown(action)}; it must be start or stop.", "action")
    refuse_unknown_fields(body, _FIELDS[action], f"{action} takes")
    for name in _LIMITS:
        if name in body and not _is_limit(body[name]):
            raise invalid(
                f"{name} is {shown(body[name])}; it must be a number up to {_MAX_LIMIT}.", name
            )
    if type(body.get(_VARY, False)) is not bool:
        raise invalid(f"{_VARY} is {shown(body[_VARY])}; it must be true or false.", _VARY)
    return {"op": "record", **body}


def _is_limit(value: object) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool and abs(value) <= _MAX_LIMIT
