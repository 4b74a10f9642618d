"""A serving engine's limits and cost, and the disturbances of the machine it runs on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from paceline.testing.policy_simulator.machines.cost import CostFunction

Drafter = Literal["keeps_up", "rests", "stateless", "ngram", "ngram_gpu", "none"]
"""The kind of drafter: a model that also runs once at draft length 0, to keep its KV cache current;
a model that rests at 0 and catches up when drafting resumes; heads without a KV cache, which need
neither; an n-gram search, which offers nothing where it has no match; an n-gram search on the GPU,
where slots without a match are verified as drafts (and rejected); none (no speculation)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A serving engine's limits and its cost."""

    cost: CostFunction
    max_draft_length: int
    max_num_seqs: int
    token_budget: int
    """Tokens a step may compute: vLLM's max_num_batched_tokens."""
    drafter: Drafter
    is_async: bool
    """Whether the next step is scheduled before the results of this one arrive."""
    prefill_chunk_tokens: int | None = None
    """Most tokens of one prompt in a step: vLLM's long_prefill_token_threshold; None for the whole
    prompt, as far as the step has room."""
    captured_lengths: tuple[int, ...] | None = None
    """The draft lengths that have CUDA graphs, ascending, 0 first: policies choose among them.
    None allows every length."""

    def __post_init__(self) -> None:
        if self.token_budget < self.max_num_seqs:
            raise ValueError(
                f"token_budget is {self.token_budget}; it must be at least max_num_seqs "
                f"({self.max_num_seqs})"
            )
        if self.prefill_chunk_tokens is not None and self.prefill_chunk_tokens < 1:
            raise ValueError(
                f"prefill_chunk_tokens is {self.prefill_chunk_tokens}; it must be at least 1, or "
                "None for no limit"
            )
        if self.is_async and self.drafter in ("rests", "ngram"):
            raise ValueError(
                f"drafter {self.drafter!r} needs synchronous scheduling: set is_async to false"
            )

    @property
    def max_prompt_tokens(self) -> int:
        """Most tokens of one prompt in a step."""
        return min(self.prefill_chunk_tokens or self.token_budget, self.token_budget)

    def draft_passes(self, draft_length: int) -> int:
        """Forward passes of the draft model at the end of a step."""
        if self.drafter in ("ngram", "ngram_gpu"):
            return 0
        if self.drafter == "keeps_up":
            return max(draft_length, 1)
        return draft_length

    def without_speculation(self) -> Machine:
        """The same engine started without a drafter."""
        return replace(self, drafter="none", max_draft_length=0, captured_lengths=None)

    def with_prefill_chunks(self, tokens: int) -> Machine:
        """The same engine with at most `tokens` of each prompt in a step."""
        return replace(self, prefill_chunk_tokens=tokens)

    def with_ngram(self) -> Machine:
        """The same engine with an n-gram drafter, which costs nothing: the one that leaves
        scheduling as it is."""
        drafter: Drafter = "ngram_gpu" if self.is_async else "ngram"
        return replace(self, drafter=drafter)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The draft lengths that a policy may choose, ascending."""
        every = range(self.max_draft_length + 1)
        return tuple(every) if self.captured_lengths is None else self.captured_lengths

    @property
    def looks_ngrams_up(self) -> bool:
        """Whether the drafter needs a match in the text so far."""
        return self.drafter in ("ngram", "ngram_gpu")


_BUSY_SPREAD = 0.6


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Deviations of durations from the cost function; without stalls and slowdowns their mean is 1.

    Each step is multiplied by a log-normal with `noise_fraction` as its sigma and by 1 +
    drift_fraction * sin(2 pi (t + drift_offset_s) / drift_period_s), and with probability
    `stall_chance` lengthened by `stall_s`. From `slow_from_s` on, for `slow_for_s` seconds, the
    machine takes `slow_factor` times as long for everything. Every `busy_every_s` seconds other
    work takes the machine's time for `busy_for_s` seconds, in which a step takes `busy_factor`
    times as long, or more, or less: that much times a log-normal with `_BUSY_SPREAD` as its sigma.
    The first step of a size takes `first_use_s` longer.
    """

    noise_fraction: float = 0.03
    stall_chance: float = 0.0
    stall_s: float = 0.0
    drift_fraction: float = 0.0
    drift_period_s: float = 600.0
    slow_factor: float = 1.0
    slow_from_s: float = 0.0
    slow_for_s: float = 0.0
    drift_offset_s: float = 0.0
    busy_factor: float = 1.0
    busy_every_s: float = 1.0
    busy_for_s: float = 0.0
    first_use_s: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 <= self.stall_chance <= 1.0 and self.stall_s >= 0.0):
            raise ValueError("stall_chance must be a probability, and stall_s must not be negative")
        if not (self.noise_fraction >= 0.0 and 0.0 <= self.drift_fraction < 1.0):
            raise ValueError(
                "noise_fraction must not be negative, and drift_fraction must be from 0 to 1"
            )
        if not self.slow_factor > 0.0:
            raise ValueError(f"slow_factor is {self.slow_factor}; it must be positive")
        if not (self.busy_factor >= 1.0 and 0.0 <= self.busy_for_s <= self.busy_every_s > 0.0):
            raise ValueError(
                "busy_factor must be at least 1, and busy_for_s from 0 to busy_every_s, above 0"
            )
        if not self.first_use_s >= 0.0:
            raise ValueError(f"first_use_s is {self.first_use_s}; it must not be negative")

    def disturb(
        self, seconds: float, now_s: float, random: np.random.Generator, *, is_first: bool = False
    ) -> float:
        """The duration of a step that should take `seconds`, and is the first of its size or not.
        Makes the same number of random draws every time."""
        normal, chance = random.standard_normal(), random.random()
        sigma = self.noise_fraction
        seconds *= math.exp(sigma * normal - 0.5 * sigma * sigma)
        if self.drift_fraction:
            turn = 2.0 * math.pi * (now_s + self.drift_offset_s) / self.drift_period_s
            seconds *= 1.0 + self.drift_fraction * math.sin(turn)
        if self.slow_from_s <= now_s < self.slow_from_s + self.slow_for_s:
            seconds *= self.slow_factor
        if now_s % self.busy_every_s >= self.busy_every_s - self.busy_for_s:
            seconds *= max(self.busy_factor * math.exp(_BUSY_SPREAD * normal), 1.0)
        if is_first:
            seconds += self.first_use_s
        return seconds + self.stall_s if chance < self.stall_chance else seconds
