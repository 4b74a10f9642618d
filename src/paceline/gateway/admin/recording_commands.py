"""Check a request to change /admin/recording: POST starts or stops, DELETE deletes.

The engines carry the commands out and keep the file; a command never carries a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.gateway.http.errors import invalid

_LIMITS = ("max_bytes", "max_seconds")
_VARY = "vary_draft_length"
_FIELDS = {"start": ("action", *_LIMITS, _VARY), "stop": ("action",)}


def recording_command(body: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the command for the engines; `body` is that of a POST, None for a DELETE.

    Raises a `Refusal` with a 400 if it is invalid. The engines check the numbers.
    """
    if body is None:
        return {"op": "record", "action": "delete"}
    action = body.get("action")
    if not isinstance(action, str) or action not in _FIELDS:
        raise invalid(f"action is {str(action)[:100]!r}; it must be start or stop.", "action")
    unknown = sorted(set(body) - set(_FIELDS[action]))
    if unknown:
        raise invalid(
            f"{unknown[0][:100]!r} cannot be set; {action} takes {', '.join(_FIELDS[action])}.",
            unknown[0][:100],
            code="unknown_field",
        )
    for name in _LIMITS:
        if name in body and type(body[name]) not in (int, float):
            raise invalid(f"{name} is {str(body[name])[:100]}; it must be a number.", name)
    if type(body.get(_VARY, False)) is not bool:
        raise invalid(f"{_VARY} is {str(body[_VARY])[:100]}; it must be true or false.", _VARY)
    return {"op": "record", **body}
