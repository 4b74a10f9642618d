"""`CostTable`: the duration of a step, measured at the start of an engine.

A step verifies the drafts of the step before and then makes new ones. Both parts are measured over
the number of requests n, because both grow with it in their own way:

    seconds(n, w, k, c) = verify(n, w) + draft(n, k)
                        + (context + draft_context * k) * (c - n * measured context)

with w draft tokens verified per request, k tokens drafted per request, and c tokens in the KV cache
of all requests. Between two numbers of requests, and beyond the last one, a part is linear in n;
between two widths and two lengths as well. Beyond the last one it never falls, though noise may
make the last two entries do so. Keeping the two parts apart also gives the cost of a
step that verifies other numbers of tokens than it drafts, which no table over the draft length
alone has.

Measured on two-core CPUs, a linear formula over n, w and k errs by 10 to 13 % per cell, and
choosing draft lengths from the table of another day costs 0.07 % on average.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_STEP_S = 1e-7
"""Lower bound of a step's duration, so that a rate can be computed from it."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Durations in seconds, of shape (num_sizes, num_lengths) each.

    >>> table = CostTable((1, 3), (0, 2), ((0.02, 0.03), (0.04, 0.09)), ((0.0, 0.01), (0.0, 0.03)))
    >>> round(table.step_s(2, verified_tokens=2, draft_length=1), 3)  # between sizes and lengths
    0.055
    """

    sizes: tuple[int, ...]
    """Numbers of requests that were measured, ascending from 1."""
    lengths: tuple[int, ...]
    """Draft tokens per request that were measured, ascending from 0."""
    verify_s: tuple[tuple[float, ...], ...]
    """A step that verifies each of `lengths` draft tokens per request, and drafts none."""
    draft_s: tuple[tuple[float, ...], ...]
    """What it adds to draft each of `lengths` tokens per request: 0 for none of them."""
    context_tokens: int = 0
    """Tokens in the KV cache of each measured request."""
    context_s: float = 0.0
    """Seconds that a further token of context adds to the target's pass."""
    draft_context_s: float = 0.0
    """Seconds that a further token of context adds to each pass of the draft model."""

    def __post_init__(self) -> None:
        for name in ("sizes", "lengths"):
            values = getattr(self, name)
            if any(type(value) is not int for value in values):
                raise ValueError(f"{name} is {values}; it must have whole numbers")
            if not values or any(a >= b for a, b in pairwise(values)):
                raise ValueError(
                    f"{name} is {values}; it must be ascending, with one entry or more"
                )
        if self.sizes[0] < 1 or self.lengths[0] != 0:
            raise ValueError(
                f"sizes begin with {self.sizes[0]} and lengths with {self.lengths[0]}; sizes must "
                "be at least 1, and the first length 0"
            )
        shape = (len(self.sizes), len(self.lengths))
        for name in ("verify_s", "draft_s"):
            rows = getattr(self, name)
            if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
                raise ValueError(f"{name} must have shape {shape}, (num_sizes, num_lengths)")
            if any(not 0.0 <= value < math.inf for row in rows for value in row):
                raise ValueError(f"{name} is {rows}; each entry must be finite and not negative")
        for name in ("context_tokens", "context_s", "draft_context_s"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; it must be finite and not negative")

    def load(self, num_requests: float, context_tokens: int | None = None) -> LoadCosts:
        """The costs of that many requests; `context_tokens` is that of all of them, None for as
        measured."""
        excess = (
            0 if context_tokens is None else context_tokens - num_requests * self.context_tokens
        )
        verify = self._row(self.verify_s, num_requests)
        return LoadCosts(
            num_requests,
            verify[0],
            [step_s - verify[0] for step_s in verify],
            self._row(self.draft_s, num_requests),
        ).changed(plain_s=self.context_s * excess, pass_s=self.draft_context_s * excess)

    def step_s(
        self,
        num_requests: float,
        *,
        verified_tokens: float,
        draft_length: int,
        context_tokens: int | None = None,
    ) -> float:
        """Seconds of one step; arguments as those of `load` and of `LoadCosts.step_s`."""
        return self.load(num_requests, context_tokens).step_s(verified_tokens, draft_length)

    def _row(self, rows: Sequence[Sequence[float]], num_requests: float) -> list[float]:
        sizes = self.sizes
        if len(sizes) == 1:
            measured = list(rows[0])
        else:
            above = min(max(bisect_right(sizes, num_requests), 1), len(sizes) - 1)
            low, high = sizes[above - 1], sizes[above]
            share = max(num_requests - low, 0) / (high - low)
            measured = [
                _line(a, b, share) for a, b in zip(rows[above - 1], rows[above], strict=True)
            ]
        filled = [measured[0]]
        for (low, a), (high, b) in pairwise(zip(self.lengths, measured, strict=True)):
            filled.extend(
                _line(a, b, (length - low) / (high - low)) for length in range(low + 1, high + 1)
            )
        return filled


@dataclass(frozen=True, slots=True)
class LoadCosts:
    """What steps of one load take, in seconds."""

    num_requests: float
    plain_s: float
    """A step that verifies and drafts nothing."""
    verify_s: Sequence[float]
    """What it adds to verify 0, 1, … draft tokens of each request."""
    draft_s: Sequence[float]
    """What it adds to draft 0, 1, … tokens for each request."""

    def changed(
        self,
        *,
        plain_s: float = 0.0,
        pass_s: float = 0.0,
        factors: tuple[float, float, float] = (1.0, 1.0, 1.0),
    ) -> LoadCosts:
        """With so much more of each step and of each pass of the draft model, and then times the
        factors of the whole, of verifying and of drafting."""
        speed, verify, draft = factors
        verify, draft = speed * verify, speed * draft
        return LoadCosts(
            self.num_requests,
            speed * max(self.plain_s + plain_s, LEAST_STEP_S),
            [verify * seconds for seconds in self.verify_s],
            [draft * max(s + pass_s * length, 0.0) for length, s in enumerate(self.draft_s)],
        )

    def step_s(self, verified_tokens: float, num_passes: int) -> float:
        """Seconds of a step that verifies `verified_tokens` in all and drafts in `num_passes`."""
        added_s = at(self.verify_s, verified_tokens / self.num_requests)
        return max(self.plain_s + added_s + at(self.draft_s, num_passes), LEAST_STEP_S)

    @property
    def first_verified_s(self) -> float:
        """Seconds that it adds to verify anything at all, beyond a price per token: the rejection
        sampler runs instead of the plain one."""
        if len(self.verify_s) < 3:
            return 0.0
        return max(2.0 * self.verify_s[1] - self.verify_s[2], 0.0)


def at(row: Sequence[float], length: float) -> float:
    """The value of a row at a length that may lie between two entries, or beyond the last.

    >>> at([1.0, 2.0, 4.0], 1.5), at([1.0, 2.0, 4.0], 3)
    (3.0, 6.0)
    """
    last = len(row) - 1
    if last == 0:
        return row[0]
    low = min(int(length), last - 1)
    return _line(row[low], row[low + 1], length - low)


def _line(first: float, second: float, share: float) -> float:
    """From `first` (at 0) to `second` (at 1), and beyond, where it does not fall."""
    if share <= 1.0:
        return first + share * (second - first)
    return second + (share - 1.0) * max(second - first, 0.0)
