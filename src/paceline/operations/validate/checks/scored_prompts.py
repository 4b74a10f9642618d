"""Prompts of the user that have a reference answer, as requests for a greedy answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.workloads import Prompt, conversation_of, load_prompt_records
from paceline.operations.validate.target.target import CHAT, COMPLETIONS

_MAX_TOKENS = 256
"""Of an answer to a prompt that sets no limit; as for `paceline quality`."""


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """One prompt and its right answer."""

    conversation: str
    """Equal for the prompts of one conversation, the unit of the statistics."""
    path: str
    """Of the request."""
    fields: Mapping[str, Any]
    """Of the request, without the model and the sampling."""
    reference: str


def read_scored_prompts(file: Path) -> tuple[ScoredPrompt, ...]:
    """The prompts of a file that have a `reference`, in its order. Raises `WorkloadError`."""
    found = []
    for record in load_prompt_records(file).records:
        reference = record.item.get("reference")
        if isinstance(reference, str) and reference:
            found.append(_scored(record.prompt, reference))
    return tuple(found)


def _scored(prompt: Prompt, reference: str) -> ScoredPrompt:
    limit = {"max_tokens": prompt.max_tokens or _MAX_TOKENS, **prompt.fields}
    conversation = conversation_of(prompt)
    if prompt.messages is None:
        return ScoredPrompt(conversation, COMPLETIONS, {"prompt": prompt.text, **limit}, reference)
    messages = [dict(message) for message in prompt.messages]
    return ScoredPrompt(conversation, CHAT, {"messages": messages, **limit}, reference)
