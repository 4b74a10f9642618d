"""What is asked, and how long is it at least?

The part of a body that holds the prompt, route by route: refuses what is not text, and counts what
the context must hold. Each `read_…` gives the number of prompts and the least number of tokens in
the longest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.gateway.http.errors import invalid, shown
from paceline.gateway.requests.field_checks import INT32_MAX
from paceline.gateway.requests.prompt_schemas import (
    MAX_EMBEDDING_INPUTS,
    RESPONSE_ITEMS,
    TEXT_PARTS,
)

MAX_TOKEN_CHARS = 1024
"""No token of the vocabularies in use is longer (the longest known are runs of a few hundred
blanks), so a prompt has at least its characters / 1024 tokens. Chosen by hand, far on the safe
side: it refuses only what cannot fit, the engine refuses the rest exactly."""

_ITEM_TEXTS = ("content", "output", "summary")

PromptSize = tuple[int, int]
"""(number of prompts, least number of tokens in the longest one)"""


def read_messages(request: Mapping[str, Any], max_prompts: int) -> PromptSize:
    """Of a chat."""
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
    return 1, num_chars // MAX_TOKEN_CHARS


def read_prompt(request: Mapping[str, Any], max_prompts: int) -> PromptSize:
    """Of a completion: text or token ids, one or a list of them."""
    return _read_texts(request.get("prompt"), max_prompts, "prompt")


def read_embedding_input(request: Mapping[str, Any], max_prompts: int) -> PromptSize:
    """Of embeddings. `max_prompts` is about answers that take an engine long; these do not.

    No least number of tokens: engines may cut what is too long into pieces.
    """
    num_prompts, _ = _read_texts(request.get("input"), MAX_EMBEDDING_INPUTS, "input")
    return num_prompts, 0


def read_response_input(request: Mapping[str, Any], max_prompts: int) -> PromptSize:
    """Of a response: a text, or the items of a conversation."""
    instructions, given = request.get("instructions"), request.get("input")
    num_chars = _check_content(instructions, "instructions")
    if isinstance(given, str):
        num_chars += len(given)
    elif isinstance(given, list) and given:
        for index, item in enumerate(given):
            num_chars += _check_item(item, f"input[{index}]")
    else:
        raise invalid(f"input must be a string or a list of items; got {shown(given)}.", "input")
    return 1, num_chars // MAX_TOKEN_CHARS


def _check_item(item: object, where: str) -> int:
    """Characters of one item of a response's input."""
    if not isinstance(item, dict):
        raise invalid(f"{where} must be an object; got {shown(item)}.", where)
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in RESPONSE_ITEMS:
        raise invalid(
            f"{where} must be of type {', '.join(RESPONSE_ITEMS)}; tools that act by "
            "themselves and references to earlier answers are not accepted here.",
            f"{where}.type",
            code="unsupported_content",
        )
    return sum(_check_content(item.get(name), f"{where}.{name}") for name in _ITEM_TEXTS)


def _check_content(content: object, where: str) -> int:
    """Characters of one message's content."""
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
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in TEXT_PARTS:
            raise invalid(
                f"{where}[{index}] must be a part of type text; images, audio, video and files "
                "are not accepted here.",
                f"{where}[{index}]",
                code="unsupported_content",
            )
        value = part.get("text")
        num_chars += len(value) if isinstance(value, str) else 0
    return num_chars


def _read_texts(prompt: object, max_prompts: int, param: str) -> PromptSize:
    """Of one field that holds text or token ids."""
    if isinstance(prompt, str):
        return 1, len(prompt) // MAX_TOKEN_CHARS
    if isinstance(prompt, list) and prompt:
        if isinstance(prompt[0], int):
            return 1, _count_token_ids(prompt, param)
        if len(prompt) > max_prompts:
            raise invalid(
                f"{param} has {len(prompt)} entries; at most {max_prompts} are allowed.", param
            )
        if all(isinstance(item, str) for item in prompt):
            return len(prompt), max(map(len, prompt)) // MAX_TOKEN_CHARS
        if all(isinstance(item, list) and item for item in prompt):
            return len(prompt), max(_count_token_ids(item, param) for item in prompt)
    raise invalid(
        f"{param} must be a string, a list of strings, a list of token ids or a list of such "
        f"lists; got {shown(prompt)}.",
        param,
    )


def _count_token_ids(ids: Sequence[Any], param: str) -> int:
    if all(type(item) is int and 0 <= item <= INT32_MAX for item in ids):
        return len(ids)
    raise invalid(f"{param} has an entry that is no token id (0 to {INT32_MAX}).", param)
