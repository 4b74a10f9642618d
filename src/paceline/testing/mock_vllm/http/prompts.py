"""Turn the prompt of a request into token ids: a text, token ids, lists of either, or a chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.testing.mock_vllm.http.field_checks import is_list_of
from paceline.testing.mock_vllm.http.refusals import describe_error, ill_formed
from paceline.testing.mock_vllm.model.vocabulary import encode_chat, encode_text


def completion_prompts(prompt: Any) -> list[list[int]]:
    """Return the token ids of each prompt: a text, token ids, or a list of either."""
    if isinstance(prompt, str):
        return [encode_text(prompt)]
    if is_list_of(prompt, int):
        return [prompt]
    if is_list_of(prompt, str):
        return [encode_text(part) for part in prompt]
    if isinstance(prompt, list) and all(is_list_of(part, int) for part in prompt):
        return list(prompt)
    kinds = ("list", "list", "string", "list")
    details = [
        describe_error("body.prompt", f"{kind}_type", f"Input should be a valid {kind}", prompt)
        for kind in kinds
    ]
    raise ill_formed("body.prompt", *details)


def chat_prompt(body: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a chat's messages."""
    if "messages" not in body:
        raise ill_formed(
            "body.messages", describe_error("body.messages", "missing", "Field required", body)
        )
    pairs = []
    for index, message in enumerate(body["messages"]):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            name = f"body.messages.{index}.role"
            raise ill_formed(name, describe_error(name, "missing", "Field required", message))
        pairs.append((message["role"], _text_of(message.get("content"))))
    return encode_chat(pairs, add_generation_prompt=body.get("add_generation_prompt") is not False)


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "\n".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def tokenize_prompt(body: Mapping[str, Any]) -> list[int]:
    """Tokenize a chat or a text of any length, for /tokenize."""
    if "messages" in body:
        return chat_prompt(body)
    prompt = body.get("prompt")
    return encode_text(prompt) if isinstance(prompt, str) else []
