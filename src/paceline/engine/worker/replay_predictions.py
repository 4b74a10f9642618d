"""Run the draft model over replay windows and compare its predictions with the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.engine.worker.draft_coverage import DraftCoverage, Gap, Ints
from paceline.engine.worker.draft_pass import StepRows, run_draft_model
from paceline.engine.worker.replay_scoring import (
    ReplayRequest,
    ReplayWindow,
    replay_drafts,
    would_accept,
)
from paceline.engine.worker.replay_target_probs import drafts_are_sampled, probs_at_temperature

_MAX_LOGITS_ROWS = 64
"""Rows of logits computed at a time: 40 MB at a vocabulary of 150,000 and 4 bytes."""


def score_windows(
    runner: Any,
    coverage: DraftCoverage,
    common: Any,
    rows: StepRows,
    requests: Sequence[ReplayRequest],
    windows: Sequence[ReplayWindow],
    random: np.random.Generator,
) -> list[tuple[int, int, int]]:
    """Compute the windows; return (row, judged, accepted) of each draft in their judged parts.

    Marks the computed tokens in `coverage`. `common` is vLLM's attention metadata of the step.
    """
    slots, hidden_states = run_draft_model(
        runner, common, rows, [Gap(window.row, window.start, window.stop) for window in windows]
    )
    coverage.mark_computed(slots)
    is_judged = np.concatenate(
        [np.arange(window.start, window.stop) >= window.judged_from for window in windows]
    )
    indices = np.flatnonzero(is_judged)
    if not indices.size:
        return []
    lengths = [window.stop - window.judged_from for window in windows]
    token_rows = np.repeat([window.row for window in windows], lengths)
    positions = np.concatenate([np.arange(window.judged_from, window.stop) for window in windows])
    next_ids = runner.input_batch.token_ids_cpu[token_rows, positions + 1]
    best_ids, draft_probs = _predict(runner, hidden_states, indices, next_ids, token_rows)
    target_probs_by_row = {request.row: request.target_probs for request in requests}
    matches = [
        _matches(
            target_probs_by_row[row],
            position + 1,
            is_best=bool(best_ids[i] == next_ids[i]),
            draft_prob=None if draft_probs is None else float(draft_probs[i]),
            random=random,
        )
        for i, (row, position) in enumerate(
            zip(token_rows.tolist(), positions.tolist(), strict=True)
        )
    ]
    drafts = []
    start = 0
    for window, length in zip(windows, lengths, strict=True):
        of_window = replay_drafts(matches[start : start + length], runner.num_spec_tokens)
        drafts += [(window.row, *draft) for draft in of_window]
        start += length
    return drafts


def _matches(
    target_probs: Mapping[int, float] | None,
    position: int,
    *,
    is_best: bool,
    draft_prob: float | None,
    random: np.random.Generator,
) -> bool:
    """Return whether a draft of the token at `position` would have been accepted."""
    if target_probs is None:
        return is_best
    assert draft_prob is not None
    return would_accept(draft_prob, target_probs[position], random.random())


def _predict(
    runner: Any, hidden_states: Any, indices: Ints, next_ids: Ints, token_rows: Ints
) -> tuple[Ints, Any]:
    """Return the draft model's best token at each index and its probability of the actual one.

    Both have shape (num_judged,). The probabilities are those vLLM samples drafts from, at the
    request's temperature; None where drafts are greedy.
    """
    import torch

    best_ids, probs = [], []
    for first in range(0, len(indices), _MAX_LOGITS_ROWS):
        part = slice(first, first + _MAX_LOGITS_ROWS)
        logits = runner.drafter.model.compute_logits(hidden_states[torch.from_numpy(indices[part])])
        best_ids.append(logits.argmax(dim=-1).numpy())
        if drafts_are_sampled(runner):
            temperatures = runner.input_batch.temperature_cpu[token_rows[part]]
            actual = torch.from_numpy(next_ids[part].astype(np.int64))[:, None]
            of_part = probs_at_temperature(logits, temperatures).gather(1, actual)
            probs.append(of_part[:, 0].numpy())
    return np.concatenate(best_ids), np.concatenate(probs) if probs else None
