"""The prompts with their reference answers, and a check that two folders read them alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.models.models import (
    load_config,
    load_tokenizer,
    max_positions,
    stop_token_ids,
)
from paceline.foundation.models.prompts import PromptSet, read_prompts
from paceline.foundation.models.values import DraftError
from paceline.foundation.workloads import key_of, load_prompt_records


@dataclass(frozen=True, slots=True)
class PromptFile:
    """The prompts as the baseline reads them."""

    path: Path
    prompts: PromptSet
    records: Mapping[str, Mapping[str, Any]]
    """The fields of each prompt in the file, by the key of the prompt."""
    stop_ids: frozenset[int]
    """Tokens that end the baseline's answers."""

    def reference(self, key: str) -> str | None:
        """The reference answer of a prompt; None if it has none."""
        found = self.records[key].get("reference")
        return found if isinstance(found, str) and found else None


def read_prompt_file(
    path: Path, folder: Path, *, max_tokens: int, num_after_end: int, limit: int | None
) -> PromptFile:
    """The prompts of a file as the model of `folder` reads them. Raises DraftError."""
    tokenizer = load_tokenizer(folder)
    prompts = _encode(path, folder, tokenizer, max_tokens, num_after_end, limit)
    used = {prompt.key for prompt in prompts.prompts}
    records: dict[str, Mapping[str, Any]] = {}
    for record in load_prompt_records(path).records:
        if key_of(record.prompt) in used:
            records.setdefault(key_of(record.prompt), record.item)
    return PromptFile(path, prompts, records, stop_token_ids(folder, tokenizer))


def find_other_tokens(
    file: PromptFile, folder: Path, *, max_tokens: int, num_after_end: int, limit: int | None
) -> str:
    """Why the model of `folder` reads prompts or ends of answers differently; "" if it does not."""
    try:
        tokenizer = load_tokenizer(folder)
        found = _encode(file.path, folder, tokenizer, max_tokens, num_after_end, limit)
    except DraftError as error:
        return str(error)
    by_key = {prompt.key: prompt for prompt in found.prompts}
    wanted = file.prompts.prompts
    missing = sum(prompt.key not in by_key for prompt in wanted)
    if missing:
        return f"{missing} of {len(wanted)} prompts do not fit into its context with their answers"
    others = sum(prompt.token_ids != by_key[prompt.key].token_ids for prompt in wanted)
    if others:
        return (
            f"{others} of {len(wanted)} prompts reach it as other tokens than "
            "the baseline; copy tokenizer.json and chat_template.jinja from the baseline"
        )
    stop_ids = stop_token_ids(folder, tokenizer)
    if stop_ids != file.stop_ids:
        return (
            f"its answers end at the tokens {sorted(stop_ids)}, those of the baseline at "
            f"{sorted(file.stop_ids)}; copy generation_config.json from the baseline"
        )
    return ""


def _encode(
    path: Path,
    folder: Path,
    tokenizer: Any,
    max_tokens: int,
    num_after_end: int,
    limit: int | None,
) -> PromptSet:
    return read_prompts(
        path,
        tokenizer,
        default_max_tokens=max_tokens,
        max_positions=max_positions(load_config(folder)),
        num_after_end=num_after_end,
        limit=limit,
    )
