"""Prompts: the value, and reading a user's own from a file."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class WorkloadError(Exception):
    """A workload cannot be used. The message says what was found and what is allowed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: `messages` for the chat route, or `text` for plain completion."""

    task: str
    messages: tuple[Mapping[str, Any], ...] | None
    text: str | None
    max_tokens: int | None

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.text is None):
            raise ValueError("a prompt needs either messages or a prompt text, but not both")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be at least 1")


def load_prompt_file(path: Path) -> list[Prompt]:
    """A user's own prompts: one JSON object per line, with the keys of the built-in ones."""
    prompts = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                item = json.loads(line)
            except ValueError as error:
                raise WorkloadError(f"{where} is not JSON: {error}") from error
            prompts.append(parse_prompt(item, where, "prompts"))
    if not prompts:
        raise WorkloadError(f"{path} holds no prompt; write one JSON object per line")
    return prompts


def shuffle_prompts(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """The prompts in the order of `seed`."""
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return order


def parse_prompt(item: object, where: str, default_task: str) -> Prompt:
    """A prompt from parsed JSON; WorkloadError that names `where` for anything else."""
    if not isinstance(item, dict):
        raise WorkloadError(f"{where} holds {type(item).__name__}; it must be a JSON object")
    messages, text = item.get("messages"), item.get("prompt")
    task, max_tokens = item.get("task", default_task), item.get("max_tokens")
    if messages is not None and not (
        isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)
    ):
        raise WorkloadError(f"{where}: messages must be a non-empty list of objects")
    if text is not None and not isinstance(text, str):
        raise WorkloadError(f"{where}: prompt is {type(text).__name__}; it must be a string")
    if not isinstance(task, str) or not task:
        raise WorkloadError(f"{where}: task is {task!r}; it must be a non-empty string")
    if max_tokens is not None and (isinstance(max_tokens, bool) or type(max_tokens) is not int):
        raise WorkloadError(f"{where}: max_tokens is {max_tokens!r}; it must be a whole number")
    try:
        return Prompt(task, None if messages is None else tuple(messages), text, max_tokens)
    except ValueError as error:
        raise WorkloadError(f"{where}: {error}") from error
