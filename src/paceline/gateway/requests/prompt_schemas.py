"""How are prompts described to the outside?

JSON schemas of the fields that `prompts` reads, for the published description of the routes. They
say what passes there; a test holds the two together.
"""

from __future__ import annotations

from paceline.gateway.requests.field_checks import INT32_MAX, described

MAX_EMBEDDING_INPUTS = 2048
"""OpenAI's own bound; clients cut their texts into requests of up to so many."""

TEXT_PARTS = (
    "text", "refusal", "thinking", "input_text", "output_text", "reasoning_text", "summary_text",
)  # fmt: skip
RESPONSE_ITEMS = (
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output",
)  # fmt: skip
"""What a conversation in text is made of. Others run something, or refer to what is kept."""

_TOKEN_IDS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 0, "maximum": INT32_MAX},
}
_CONTENT = {
    "anyOf": [
        {"type": ["string", "null"]},
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"enum": list(TEXT_PARTS)}, "text": {"type": "string"}},
            },
        },
    ]
}


def _texts_or_ids(max_items: int | None) -> dict[str, object]:
    several = {"type": "array", "minItems": 1, **({"maxItems": max_items} if max_items else {})}
    return {
        "anyOf": [
            {"type": "string"},
            _TOKEN_IDS,
            {**several, "items": {"type": "string"}},
            {**several, "items": _TOKEN_IDS},
        ]
    }


messages = described(
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"type": "string"}, "content": _CONTENT},
        },
    }
)
prompt = described(_texts_or_ids(None))
embedding_input = described(_texts_or_ids(MAX_EMBEDDING_INPUTS))
instructions = described(_CONTENT)
response_input = described(
    {
        "anyOf": [
            {"type": "string"},
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"enum": list(RESPONSE_ITEMS)},
                        "content": _CONTENT,
                        "output": _CONTENT,
                        "summary": _CONTENT,
                    },
                },
            },
        ]
    }
)
