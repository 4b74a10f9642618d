"""Judge greedy output token by token against the target's log-probabilities.

The output is teacher-forced: the target computes its log-probabilities given the prompt and all
output tokens before. A token is right when it is the argmax. Otherwise its distance from the argmax
separates rounding (batch shapes change the order of floating-point sums, so two nearly equal logits
may swap) from a token that the target would not have chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Largest difference that rounding explains, in nats. float32: sums of a few hundred products of
# order 10 differ by about 1e-5; bfloat16 keeps 8 bits, so logits around 16 differ by 1/8.
NEAR_TIE_NATS = {"float32": 1e-3, "bfloat16": 0.25}


@dataclass(frozen=True, slots=True)
class Deviation:
    """An output token that is not the target's argmax."""

    position: int
    token_id: int
    best_token_id: int
    gap_nats: float


@dataclass(frozen=True, slots=True)
class GreedyVerdict:
    """The result of teacher forcing for one output."""

    num_tokens: int
    near_ties: tuple[Deviation, ...]
    wrong: tuple[Deviation, ...]

    @property
    def is_lossless(self) -> bool:
        return not self.wrong


def judge_greedy(
    token_ids: Sequence[int],
    logprobs: Sequence[Mapping[int, float]],
    *,
    near_tie_nats: float,
) -> GreedyVerdict:
    """Judge an output against the target's log-probabilities at each of its positions.

    `logprobs[i]` holds at least the argmax and `token_ids[i]`, given everything before i.
    """
    if len(token_ids) != len(logprobs):
        raise ValueError(f"{len(token_ids)} tokens but {len(logprobs)} positions of logprobs")
    near_ties, wrong = [], []
    for position, (token_id, known) in enumerate(zip(token_ids, logprobs, strict=True)):
        best = max(known, key=known.__getitem__)
        gap = known[best] - known[token_id]
        if gap <= 0.0:
            continue
        deviation = Deviation(position, token_id, best, gap)
        (near_ties if gap <= near_tie_nats else wrong).append(deviation)
    return GreedyVerdict(len(token_ids), tuple(near_ties), tuple(wrong))
