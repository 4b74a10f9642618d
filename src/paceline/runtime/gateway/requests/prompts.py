"""The prompt of each route: its JSON schema, its check, and its size in tokens.

Each `read_…` refuses what is not text, and returns a `PromptSize`. The schemas are for the
published description of the routes; a test compares them with the checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paceline.runtime.gateway.http.errors import invalid, shown
from paceline.runtime.gateway.requests.field_checks import INT32_MAX, described, with_whole_numbers

MAX_TOKEN_CHARS = 1024
"""No token of the vocabularies in use is longer (the longest known are runs of a few hundred
blanks), so a prompt has at least its characters / 1024 tokens. Chosen empirically, with a wide
margin: the gateway refuses only what cannot fit, and the engine checks the rest exactly."""
_TOKEN_CHARS = 4
"""Usual characters of a token, for estimates. OpenAI's rule of thumb for English."""
MAX_EMBEDDING_INPUTS = 2048
"""OpenAI's own bound; clients split their texts into requests of this size."""

TEXT_PARTS = (
    "text", "refusal", "thinking", "input_text", "output_text", "reasoning_text", "summary_text",
    "tool_reference",
)  # fmt: skip
_MEDIA_KEYS = frozenset(
    {
        "image_url", "image_pil", "image_embeds", "audio_url", "audio_embeds", "input_audio",
        "video_url", "video_embeds", "prompt_embeds",
    }
)  # fmt: skip
"""vLLM loads what these hold whatever the type of the part, if the part has a `uuid`."""
RESPONSE_ITEMS = (
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output",
)  # fmt: skip
"""The items of a conversation in text. Other items run something, or refer to stored answers."""
_ITEM_TEXTS = ("content", "output", "summary")


class PromptSize(NamedTuple):
    """The size of the prompts of one request."""

    num_prompts: int
    min_tokens: int
    """The longest prompt has at least this many tokens, with any tokenizer."""
    num_tokens: int
    """Tokens of all prompts: exact for token ids, estimated for text."""


def _size_of_text(num_chars: int) -> PromptSize:
    return PromptSize(1, num_chars // MAX_TOKEN_CHARS, num_chars // _TOKEN_CHARS)


def read_messages(request: Mapping[str, Any]) -> PromptSize:
    """Read the messages of a chat."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid(f"messages must be a list with a message; got {shown(messages)}.", "messages")
    num_chars = 0
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise invalid(f"{where} must be an object; got {shown(message)}.", where)
        if not isinstance(message.get("role"), str):
            raise invalid(
                f"{where}.role must be a string; got {shown(message.get('role'))}.",
                f"{where}.role",
            )
        num_chars += _check_content(message.get("content"), f"{where}.content")
    return _size_of_text(num_chars)


def with_text_parts(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """These checked messages with a text part for each string in a list of content.

    None if there is no such string. vLLM refuses a list that has strings only.

    >>> with_text_parts([{"role": "user", "content": ["a"]}])
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}]}]
    """
    if not any(_has_strings(message.get("content")) for message in messages):
        return None
    return [
        {**message, "content": [_text_part(part) for part in message["content"]]}
        if _has_strings(message.get("content"))
        else message
        for message in messages
    ]


def _has_strings(content: object) -> bool:
    return isinstance(content, list) and any(isinstance(part, str) for part in content)


def _text_part(part: object) -> object:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def read_prompt(request: Mapping[str, Any]) -> PromptSize:
    """Read the prompt of a completion: a text, token ids, or a list of either.

    `served` bounds the number of prompts, by what the replicas compute at a time.
    """
    return _read_texts(request.get("prompt"), "prompt")


def read_embedding_input(request: Mapping[str, Any]) -> PromptSize:
    """Read the input of embeddings.

    The least number of tokens is 0: engines may split an input that is too long.
    """
    size = _read_texts(request.get("input"), "input", MAX_EMBEDDING_INPUTS)
    return size._replace(min_tokens=0)


def read_response_input(request: Mapping[str, Any]) -> PromptSize:
    """Read the input of a response: a text, or the items of a conversation."""
    instructions, given = request.get("instructions"), request.get("input")
    num_chars = _check_content(instructions, "instructions")
    if isinstance(given, str):
        num_chars += len(given)
    elif isinstance(given, list) and given:
        for index, item in enumerate(given):
            num_chars += _check_item(item, f"input[{index}]")
    else:
        raise invalid(f"input must be a string or a list of items; got {shown(given)}.", "input")
    return _size_of_text(num_chars)


def _check_item(item: object, where: str) -> int:
    """Check one item of a response's input, and count its characters."""
    if not isinstance(item, dict):
        raise invalid(f"{where} must be an object; got {shown(item)}.", where)
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in RESPONSE_ITEMS:
        raise invalid(
            f"{where} must be of type {', '.join(RESPONSE_ITEMS)}; built-in tools and references "
            "to earlier answers are not accepted here.",
            f"{where}.type",
            code="unsupported_content",
        )
    return sum(_check_content(item.get(name), f"{where}.{name}") for name in _ITEM_TEXTS)


def _check_content(content: object, where: str) -> int:
    """Check the content of one message, and count its characters."""
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content)
    if not isinstance(content, list):
        raise invalid(
            f"{where} must be a string, null or a list of text parts; got {shown(content)}.", where
        )
    num_chars = 0
    for index, part in enumerate(content):
        if isinstance(part, str):
            num_chars += len(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in TEXT_PARTS or not _MEDIA_KEYS.isdisjoint(part):
            raise invalid(
                f"{where}[{index}] must be a string or a part of type text; images, audio, video "
                "and files are not accepted here.",
                f"{where}[{index}]",
                code="unsupported_content",
            )
        value = part.get("text")
        num_chars += len(value) if isinstance(value, str) else 0
    return num_chars


def _read_texts(prompt: object, param: str, max_prompts: int | None = None) -> PromptSize:
    """Read one field that holds text or token ids."""
    if isinstance(prompt, str):
        return _size_of_text(len(prompt))
    if isinstance(prompt, list) and prompt:
        if isinstance(prompt[0], int | float):
            num_ids = _count_token_ids(prompt, param)
            return PromptSize(1, num_ids, num_ids)
        if max_prompts is not None and len(prompt) > max_prompts:
            raise invalid(
                f"{param} has {len(prompt)} entries; at most {max_prompts} are allowed.", param
            )
        if all(isinstance(item, str) for item in prompt):
            longest, total = max(map(len, prompt)), sum(map(len, prompt))
            return PromptSize(len(prompt), longest // MAX_TOKEN_CHARS, total // _TOKEN_CHARS)
        if all(isinstance(item, list) and item for item in prompt):
            nums_ids = [_count_token_ids(item, param) for item in prompt]
            return PromptSize(len(prompt), max(nums_ids), sum(nums_ids))
    raise invalid(
        f"{param} must be a string, a list of strings, a list of token ids or a list of such "
        f"lists; got {shown(prompt)}.",
        param,
    )


def _count_token_ids(ids: Sequence[Any], param: str) -> int:
    # Passes in C take a third of the time of one in Python; a prompt may have 262,144 ids.
    kinds = set(map(type, ids))
    if float in kinds:
        ids = [with_whole_numbers(item) for item in ids]
        kinds = set(map(type, ids))
    if kinds == {int} and min(ids) >= 0 and max(ids) <= INT32_MAX:
        return len(ids)
    raise invalid(f"{param} has an entry that is no token id (0 to {INT32_MAX}).", param)


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
                "type": ["object", "string"],
                "required": ["type"],
                "properties": {
                    "type": {"enum": list(TEXT_PARTS)},
                    "text": {"type": "string"},
                    **dict.fromkeys(sorted(_MEDIA_KEYS), False),
                },
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


MESSAGES = described(
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
PROMPT = described(_texts_or_ids(None))
EMBEDDING_INPUT = described(_texts_or_ids(MAX_EMBEDDING_INPUTS))
INSTRUCTIONS = described(_CONTENT)
RESPONSE_INPUT = described(
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
