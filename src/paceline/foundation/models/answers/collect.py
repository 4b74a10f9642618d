"""Generate the answers that are missing on disk, batch by batch.

Batches are chosen from the prompts alone, and each has a seed of its own. So an interrupted run
repeats at most one batch, and continues with the answers that an uninterrupted run has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from paceline.foundation.models.answers.answer_file import AnswerFile
from paceline.foundation.models.answers.engine_generation import (
    generate_in_engine,
    load_engine,
    stop_engine,
)
from paceline.foundation.models.answers.generation import generate_answers
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model, serving_dtype
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.prompts import digest_of
from paceline.foundation.models.values import Answer, DraftError, EncodedPrompt, Sampling

Engine = Literal["transformers", "vllm"]
MAX_ROWS = 32
MAX_BATCH_TOKENS = 16_384
"""Chosen: bounds the KV cache of a batch, prompts and answers together."""
_MAX_ENGINE_ROWS = 512
"""Of a batch for vLLM, which schedules them itself. Chosen: an interrupted run repeats a minute."""
_SEED_STRIDE = 1_000_003
"""Between the seeds of two trainings; a prime above any number of batches."""
_NUM_SEEDS = 2**63
"""torch refuses larger ones, and a time as --seed would give them."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What the target is asked for."""

    prompts: Sequence[EncodedPrompt]
    samplings: Sequence[Sampling]
    stop_ids: AbstractSet[int]
    num_after_end: int
    seed: int
    answers_per_prompt: int = 1
    """Under each sampling; greedy answers to one prompt are equal, so there is one of those."""
    engine: Engine = "transformers"
    """What generates: the target given is a model of transformers, or vLLM's `LLM`."""

    def header(self, target_revision: str) -> dict[str, Any]:
        """What the answers are of, for `AnswerFile`. Every value changes the answers."""
        made_by = {} if self.engine == "transformers" else {"engine": self.engine}
        return made_by | {
            "kind": "paceline draft answers",
            "schema_version": 1,
            "target_revision": target_revision,
            "prompts": digest_of(self.prompts),
            "samplings": [[s.temperature, s.top_k, s.top_p] for s in self.samplings],
            "stop_ids": sorted(self.stop_ids),
            "num_after_end": self.num_after_end,
            "seed": self.seed,
            "answers_per_prompt": self.answers_per_prompt,
        }


@dataclass(frozen=True, slots=True)
class _Batch:
    sampling: Sampling
    prompts: tuple[EncodedPrompt, ...]


def load_target(
    engine: Engine, folder: Path, device: torch.device, max_positions: int, seed: int
) -> Any:
    """What generates answers of at most `max_positions` tokens, prompts included, for
    `collect_answers`. DraftError if it cannot be loaded."""
    dtype = serving_dtype(device)
    if engine == "vllm":
        return load_engine(folder, str(dtype).removeprefix("torch."), max_positions, seed)
    return load_model(folder, dtype, device)


def collect_answers(
    request: AnswerRequest,
    file: AnswerFile,
    load: Callable[[], Any],
    progress: DraftProgress,
    stop: StopRequest,
) -> list[Answer]:
    """All answers, those on disk included. The target is loaded only if one is missing: `load`
    returns what `load_target` does.

    Raises Interrupted after a signal; finished batches are on disk.
    """
    batches = list(_plan_batches(request))
    missing = [number for number in range(len(batches)) if number not in file.batches]
    total = sum(len(batch.prompts) for batch in batches)
    completed = total - sum(len(batches[number].prompts) for number in missing)
    progress.begin("the target's own answers", total, completed)
    try:
        target = load() if missing else None
    except DraftError:
        stop.raise_if_set()  # a signal ends an engine that starts
        raise
    generate = generate_in_engine if request.engine == "vllm" else generate_answers
    try:
        for number in missing:
            batch = batches[number]
            answers = generate(
                target,
                batch.prompts,
                batch.sampling,
                stop_ids=request.stop_ids,
                num_after_end=request.num_after_end,
                seed=(request.seed * _SEED_STRIDE + number) % _NUM_SEEDS,
                stop=stop,
            )
            file.append(number, answers)
            completed += len(answers)
            progress.update(completed)
    finally:
        if target is not None and request.engine == "vllm":
            stop_engine(target)
    return [answer for number in range(len(batches)) for answer in file.batches[number]]


def _plan_batches(request: AnswerRequest) -> Iterator[_Batch]:
    """Batches of prompts of similar length, so that little is computed for padding."""
    max_rows, max_tokens = MAX_ROWS, MAX_BATCH_TOKENS
    if request.engine == "vllm":
        max_rows, max_tokens = _MAX_ENGINE_ROWS, sys.maxsize
    ordered = sorted(request.prompts, key=lambda p: (p.max_tokens, len(p.token_ids), p.key))
    for sampling in request.samplings:
        times = request.answers_per_prompt if sampling.temperature else 1
        rows: list[EncodedPrompt] = []
        longest = 0
        for prompt in (prompt for prompt in ordered for _ in range(times)):
            longest = max(longest, len(prompt.token_ids) + prompt.max_tokens)
            if rows and (len(rows) == max_rows or longest * (len(rows) + 1) > max_tokens):
                yield _Batch(sampling, tuple(rows))
                rows, longest = [], len(prompt.token_ids) + prompt.max_tokens
            rows.append(prompt)
        if rows:
            yield _Batch(sampling, tuple(rows))
