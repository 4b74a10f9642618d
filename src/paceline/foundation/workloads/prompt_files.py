"""Read a file of prompts: a user's own, or a data set in one of the public forms."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.workloads.fields import WorkloadError
from paceline.foundation.workloads.prompt_forms import read_any_prompt
from paceline.foundation.workloads.prompts import Prompt
from paceline.foundation.workloads.record_files import read_json_records


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """One prompt of a file."""

    where: str
    """Its place, for messages: the file and the number of its line or item."""
    item: Mapping[str, Any]
    """The record as it stands in the file."""
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class PromptRecords:
    """The prompts of a file, in its order."""

    records: tuple[PromptRecord, ...]
    num_left_out: int
    """Records without a message of a user, such as empty conversations."""

    @property
    def prompts(self) -> list[Prompt]:
        return [record.prompt for record in self.records]


def load_prompt_records(path: Path) -> PromptRecords:
    """The prompts of the file. WorkloadError names the place of the first bad record."""
    found: list[PromptRecord] = []
    num_left_out = 0
    for where, item in read_json_records(path):
        prompt = read_any_prompt(item, where, "prompts")
        if prompt is None:
            num_left_out += 1
            continue
        assert isinstance(item, dict)  # Anything else was refused.
        found.append(PromptRecord(where, item, prompt))
    if not found:
        left_out = f"; {num_left_out} conversations have no message of a user" * bool(num_left_out)
        raise WorkloadError(f"{path} holds no prompt; write one JSON object per line{left_out}")
    return PromptRecords(tuple(found), num_left_out)


def load_prompt_file(path: Path) -> list[Prompt]:
    """The prompts of the file, in its order. WorkloadError names the place of the first bad one."""
    return load_prompt_records(path).prompts


def load_placed_prompts(path: Path) -> list[tuple[str, Prompt]]:
    """As `load_prompt_file`, each after its place: the file and the number of its line.

    For callers that read texts and messages alone: a prompt with tools is refused, because they
    are part of what a model reads.
    """
    records = load_prompt_records(path).records
    for record in records:
        if record.prompt.fields:
            name = next(iter(record.prompt.fields))
            raise WorkloadError(
                f"{record.where}: {name} is not used here, and the prompt is another one without "
                "it; leave the line out, or take the field away"
            )
    return [(record.where, record.prompt) for record in records]


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file that is read again; WorkloadError for a pipe, which is read once."""
    if path.exists() and not path.is_file():
        raise WorkloadError(
            f"{path} is no regular file, and is read more than once; write the prompts to a file"
        )
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error}") from error


def add_system_prompt(prompts: Sequence[Prompt], text: str) -> list[Prompt]:
    """Put one system message in front of every chat, and the text in front of plain prompts."""
    system = {"role": "system", "content": text}
    return [
        dataclasses.replace(prompt, text=f"{text}\n\n{prompt.text}", input_tokens=None)
        if prompt.messages is None
        else dataclasses.replace(prompt, messages=(system, *prompt.messages))
        for prompt in prompts
    ]
