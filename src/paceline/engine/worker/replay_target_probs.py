"""Keep the target's probabilities of the tokens that replayed requests sample.

Needed where the drafter samples ("draft_sample_method": "probabilistic") and the request does too:
acceptance then depends on the target's probability of each token. It is kept when the token is
sampled, in steps without drafts: the probability at the request's temperature, before top-k, top-p,
min-p and penalties. The output does not depend on it, only the governor's estimate does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_GREEDY_BELOW = 1e-5
"""vLLM's own limit between greedy and sampled requests (`_SAMPLING_EPS`)."""

RowProbs = tuple[list[int], Any]
"""Rows, and the probabilities their tokens are sampled from, shape (num_rows, vocab_size)."""


def drafts_are_sampled(runner: Any) -> bool:
    """Return whether drafts are sampled from the drafter's distribution and verified against it."""
    speculative = runner.speculative_config
    methods = (speculative.draft_sample_method, speculative.rejection_sample_method)
    return methods == ("probabilistic", "standard")


def is_sampled(runner: Any, row: int) -> bool:
    """Return whether the request in `row` has a temperature above 0."""
    return bool(runner.input_batch.temperature_cpu[row] >= _GREEDY_BELOW)


def probs_at_temperature(logits: Any, temperatures: Any) -> Any:
    """Return the softmax at each row's temperature, in a new tensor; greedy rows at 1."""
    import torch

    temperatures = torch.from_numpy(np.where(temperatures < _GREEDY_BELOW, 1.0, temperatures))
    return (logits.float() / temperatures[:, None]).softmax(dim=-1)


def probs_before_sampling(runner: Any, request_ids: Iterable[str], logits: Any) -> RowProbs | None:
    """Return rows and probabilities of those requests that keep a sampled token in this step.

    Call it before the sampler, which changes the logits in place. None if there are none.
    """
    if not drafts_are_sampled(runner):
        return None
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    found = (batch.req_id_to_index.get(request_id) for request_id in request_ids)
    rows = [r for r in found if r is not None and is_sampled(runner, r) and not discarded[r]]
    if not rows:
        return None
    return rows, probs_at_temperature(logits[rows], batch.temperature_cpu[rows])


def probs_of_sampled(
    runner: Any, probs: RowProbs, sampled_token_ids: Any
) -> Iterator[tuple[str, int, float]]:
    """Yield request id, position and probability of each token that was sampled."""
    rows, of_rows = probs
    batch = runner.input_batch
    sampled = of_rows.gather(1, sampled_token_ids[rows, :1].long())[:, 0].tolist()
    for row, prob in zip(rows, sampled, strict=True):
        yield batch.req_ids[row], int(batch.num_tokens_no_spec[row]), prob
