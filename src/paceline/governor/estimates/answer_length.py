"""The mean number of tokens in an answer.

    tokens = tokens produced / answers ended

An answer wastes the drafts that reach beyond its end, and the longer the drafts, the more: with X
the tokens that a step yields, an answer of L tokens takes

    (L + E[X²] / (2 E[X]) - 1/2) / E[X]

steps on average (the overshoot of a renewal process: Feller, volume 2, chapter XI). At 64 tokens,
a draft length of 8 and 0.9 accepted per position that is 5 % more steps than L / E[X].

Assumes that answers end independently of the drafts.
"""

from __future__ import annotations

import math

from paceline.governor.values import StepSample

_MEMORY_ANSWERS = 64.0
_FIRST_ANSWERS, _FIRST_TOKENS = 0.5, 256.0
"""Until an answer has ended, answers are taken to be long. All chosen empirically."""


class AnswerLength:
    """Learns the length of answers from the steps that produce and end them."""

    def __init__(self) -> None:
        self._tokens = _FIRST_TOKENS
        self._answers = _FIRST_ANSWERS

    @property
    def tokens(self) -> float:
        """Mean tokens of an answer; at least 1."""
        return max(self._tokens / self._answers, 1.0)

    def observe(self, sample: StepSample) -> None:
        """Count one step's tokens and the answers that it ended."""
        if sample.num_ended > 0:
            keep = math.exp(-sample.num_ended / _MEMORY_ANSWERS)
            self._tokens *= keep
            self._answers = keep * self._answers + sample.num_ended
        self._tokens += sample.num_requests - sample.num_prefilling + sum(sample.accepted)
