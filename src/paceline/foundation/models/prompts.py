"""Read the user's prompts, render them with the target's chat template, and split off a held-out
part.

A client of a chat sends all messages so far with every request, so later requests of a conversation
contain the earlier ones. The hash of how a conversation begins (its messages up to the first of the
user, or the text of a plain prompt) decides whether it is held out. So all requests of a
conversation are on one side, and stay there when other prompts are added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jinja2 import TemplateError

from paceline.foundation.distillation.held_out import is_held_out
from paceline.foundation.models.values import DraftError, EncodedPrompt
from paceline.foundation.workloads import (
    Prompt,
    WorkloadError,
    conversation_of,
    digest_of_file,
    key_of,
    load_placed_prompts,
)

HELD_OUT_PER_THOUSAND = 200
"""Chosen: a fifth keeps most of the prompts for training; the interval of the gain shrinks with the
square root of the number of held-out conversations."""
MIN_HELD_OUT = 8
MIN_TRAINED = 8
"""Conversations. Chosen: with fewer, a bootstrap interval over them is not to be trusted."""


class PromptTokenizer(Protocol):
    """What is used of a tokenizer of transformers. Neither method changes it."""

    chat_template: Any

    def apply_chat_template(self, conversation: list[Mapping[str, Any]], **options: Any) -> Any:
        """Token ids of the messages in the chat template."""
        ...

    def __call__(self, text: str) -> Any:
        """A mapping with `input_ids`."""
        ...


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of a file that can be answered."""

    prompts: tuple[EncodedPrompt, ...]
    """Each text once, in the order of the file."""
    sha256: str
    """Of the file."""
    num_repeated: int
    num_too_long: int

    def split(self) -> tuple[list[EncodedPrompt], list[EncodedPrompt]]:
        """(for training, held out). DraftError if one of them is too small."""
        conversations = {p.conversation for p in self.prompts}
        reserved = {c for c in conversations if is_held_out(c, HELD_OUT_PER_THOUSAND)}
        num_trained = len(conversations) - len(reserved)
        if len(reserved) < MIN_HELD_OUT or num_trained < MIN_TRAINED:
            raise DraftError(
                f"of {len(self.prompts)} different prompts, {len(reserved)} conversations are held "
                f"out to measure the gain and {num_trained} are for training; at least "
                f"{MIN_HELD_OUT} and {MIN_TRAINED} are needed. A hash of the first messages holds "
                "out one conversation in five: give more prompts with --prompts (those of 100 or "
                "more conversations are usually enough)"
            )
        trained = [p for p in self.prompts if p.conversation not in reserved]
        held_out = [p for p in self.prompts if p.conversation in reserved]
        return trained, held_out


def read_prompts(
    path: Path,
    tokenizer: PromptTokenizer,
    *,
    default_max_tokens: int,
    max_positions: int,
    num_after_end: int,
    limit: int | None = None,
) -> PromptSet:
    """The prompts of a JSONL file, as for `paceline bench run`; `limit` takes the first ones.

    Of a session only the first message counts: later turns need the answers before them. A prompt
    that does not fit into `max_positions` with its answer and `num_after_end` tokens is left out.
    DraftError if the file cannot be read or nothing is left.
    """
    try:
        digest = digest_of_file(path)
        found = load_placed_prompts(path)
    except WorkloadError as error:
        raise DraftError(str(error)) from error
    different: dict[str, tuple[str, Prompt]] = {}
    for where, prompt in found:
        different.setdefault(key_of(prompt), (where, prompt))
    encoded = [
        EncodedPrompt(
            key=key,
            conversation=conversation_of(prompt),
            token_ids=_encode(prompt, tokenizer, where),
            max_tokens=prompt.max_tokens or default_max_tokens,
            category=prompt.task,
        )
        for key, (where, prompt) in list(different.items())[:limit]
    ]
    fitting = tuple(
        p for p in encoded if len(p.token_ids) + p.max_tokens + num_after_end <= max_positions
    )
    if not fitting:
        raise DraftError(
            f"none of the {len(encoded)} prompts of {path} fits into the {max_positions:,} "
            "positions of the models with its answer; give shorter prompts, or lower --max-tokens "
            "or the prompts' own max_tokens"
        )
    return PromptSet(
        prompts=fitting,
        sha256=digest,
        num_repeated=len(found) - len(different),
        num_too_long=len(encoded) - len(fitting),
    )


def digest_of(prompts: Sequence[EncodedPrompt]) -> str:
    """A digest of what the target is given: token ids and limits, in their order."""
    rows = [[p.key, p.token_ids, p.max_tokens] for p in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _encode(prompt: Prompt, tokenizer: PromptTokenizer, where: str) -> tuple[int, ...]:
    if prompt.messages is None:
        ids = tokenizer(prompt.text or "")["input_ids"]
    elif not tokenizer.chat_template:
        raise DraftError(
            f"{where} has messages, and the target has no chat template; add "
            "chat_template.jinja to its folder, or give `prompt` texts"
        )
    else:
        try:
            ids = tokenizer.apply_chat_template(
                list(prompt.messages), add_generation_prompt=True, return_dict=False
            )
        except (TemplateError, KeyError, TypeError, ValueError) as error:
            raise DraftError(f"the target's chat template refuses {where}: {error}") from error
    if not ids:
        raise DraftError(f"{where} has a prompt without tokens; every prompt needs a text")
    return tuple(int(token) for token in ids)
