"""Read a user's own prompts: a file with one JSON object per line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.workloads.fields import WorkloadError
from paceline.workloads.prompts import Prompt, parse_prompt


def load_prompt_file(path: Path) -> list[Prompt]:
    """The prompts of the file, in its order. WorkloadError names the line of the first bad one."""
    return [prompt for _, prompt in load_placed_prompts(path)]


def load_placed_prompts(path: Path) -> list[tuple[str, Prompt]]:
    """As `load_prompt_file`, each after its place: the file and the number of its line."""
    placed = [
        (where, parse_prompt(item, where, "prompts")) for where, item in read_json_lines(path)
    ]
    if not placed:
        raise WorkloadError(f"{path} holds no prompt; write one JSON object per line")
    return placed


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


def read_json_lines(path: Path) -> Iterator[tuple[str, object]]:
    """Place and parsed value of every line that is not blank.

    Only a newline ends a line: JSON allows U+2028 and other separators within a string.
    """
    for number, line in enumerate(read_file(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise WorkloadError(f"{where} is not JSON: {error}") from error


def read_file(path: Path) -> str:
    """The text of a file; WorkloadError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read {path}: {error}") from error


def add_system_prompt(prompts: Sequence[Prompt], text: str) -> list[Prompt]:
    """Put one system message in front of every chat, and the text in front of plain prompts."""
    system = {"role": "system", "content": text}
    return [
        dataclasses.replace(prompt, text=f"{text}\n\n{prompt.text}")
        if prompt.messages is None
        else dataclasses.replace(prompt, messages=(system, *prompt.messages))
        for prompt in prompts
    ]
