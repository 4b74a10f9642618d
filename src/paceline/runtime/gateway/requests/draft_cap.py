"""The field `speculation`: a request caps its draft tokens, or switches speculation off.

    "speculation": {"max_draft_length": 0}

vLLM does not know the field. The gateway takes it out of the body and sends the cap as an entry of
`vllm_xargs`, which vLLM hands to its scheduler and Paceline's scheduler enforces. Servers that do
not draft need no cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.runtime.gateway.requests.field_checks import INT32_MAX, Check, whole_number

FIELD = "speculation"
ENGINE_FIELD = "vllm_xargs"
ENGINE_KEY = "paceline_max_draft_length"
"""Read by `paceline.runtime.engine.scheduler.request_parameters`; a test compares the two."""

_CAP = "max_draft_length"


def _is_fine(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {_CAP}:
        return False
    cap = whole_number(value[_CAP])
    return cap is not None and 0 <= cap <= INT32_MAX


SPECULATION = Check(
    _is_fine,
    f'{{"{_CAP}": N}} with an integer N from 0 (no speculation) to {INT32_MAX}, and no other key',
    {
        "type": "object",
        "required": [_CAP],
        "additionalProperties": False,
        "properties": {_CAP: {"type": "integer", "minimum": 0, "maximum": INT32_MAX}},
        "description": "Most draft tokens per step for this request; 0 for no speculation.",
    },
)


def draft_cap_of(parsed: Mapping[str, Any]) -> int | None:
    """The cap of this checked body; None when it sets none."""
    given = parsed.get(FIELD)
    return None if given is None else int(given[_CAP])


def cap_fields(parsed: Mapping[str, Any], dialect: str) -> Mapping[str, object]:
    """The fields that carry the cap to a server of this dialect."""
    cap = draft_cap_of(parsed)
    if cap is None or dialect != "vllm":
        return {}
    return {ENGINE_FIELD: {**(parsed.get(ENGINE_FIELD) or {}), ENGINE_KEY: cap}}
