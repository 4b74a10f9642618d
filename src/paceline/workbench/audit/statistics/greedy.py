"""Judge greedy tokens by log-probabilities: the most likely token, a near-tie, or wrong.

Batch shapes change the order of floating-point sums, so two nearly equal logits may swap. A token
within the limit of its number format is a near-tie; one further below the most likely token is
wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.workbench.audit.values import Logprobs, Token

NEAR_TIE_NATS = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.25}
"""Largest difference that rounding explains. float32: sums of a few hundred products of order 10
differ by about 1e-5. bfloat16 keeps 8 bits, so logits around 16 differ by 1/8; float16 keeps 11."""
_NOISE_PER_GAP = 0.5
"""The gap of two tokens changes by the noise of both."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """An output token that is not the most likely one."""

    position: int
    token_id: Token
    best_token_id: Token
    gap_nats: float
    """At least, where the token is not among the named ones."""


@dataclass(frozen=True, slots=True)
class GreedyVerdict:
    """The result for one output."""

    num_tokens: int
    near_ties: tuple[Deviation, ...]
    wrong: tuple[Deviation, ...]

    @property
    def is_lossless(self) -> bool:
        return not self.wrong


def judge_greedy(
    tokens: Sequence[Token], logprobs: Sequence[Logprobs], *, near_tie_nats: float
) -> GreedyVerdict:
    """Judge an output against the model's log-probabilities at each of its positions.

    `logprobs[i]` are the best ones given everything before token i; a token that they do not name
    is below all of them.
    """
    if len(tokens) != len(logprobs):
        raise ValueError(f"{len(tokens)} tokens but {len(logprobs)} positions of logprobs")
    near_ties: list[Deviation] = []
    wrong: list[Deviation] = []
    for position, (token, known) in enumerate(zip(tokens, logprobs, strict=True)):
        best = max(known, key=known.__getitem__)
        gap = known[best] - known.get(token, min(known.values()))
        if token in known and gap <= 0.0:
            continue
        deviation = Deviation(position, token, best, gap)
        is_tie = token in known and gap <= near_tie_nats
        (near_ties if is_tie else wrong).append(deviation)
    return GreedyVerdict(len(tokens), tuple(near_ties), tuple(wrong))


def first_difference(left: Sequence[Token], right: Sequence[Token]) -> int | None:
    """The first position at which two outputs differ; None if one begins with the other."""
    pairs = zip(left, right, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), None)


def number_format(high_noise_nats: float) -> str:
    """The finest number format whose limit covers gaps of two tokens with this noise."""
    for name, limit in NEAR_TIE_NATS.items():
        if high_noise_nats <= _NOISE_PER_GAP * limit:
            return name
    return "bfloat16"
