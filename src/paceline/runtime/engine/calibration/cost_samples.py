"""`CostSamples`: the durations of trial steps by kind, and the `CostTable` made of them.

The duration of a kind is the median of its samples without the first, which may compile or
allocate; of two samples, the least. It is no longer than that of any kind with as many requests and
tokens or more: a cell above such a one was disturbed. (The least of all samples would be disturbed
less, but some kinds are fast now and then: of SmolLM2 with its head, the least of 5 said that one
draft makes a step 21 % longer, the median 32 %, and serving 31 %.) The second rule would be wrong
where a larger step runs faster, as in a CUDA graph that the smaller one lacks; engines with such
graphs are not measured (`suitability`). What drafting adds is smoothed (`draft_fit`).
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.draft_fit import fit_drafts
from paceline.runtime.engine.calibration.plan import Plan, StepKind


class CostSamples:
    """Durations of the steps of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._samples: dict[StepKind, list[float]] = {}

    @property
    def num_kinds(self) -> int:
        """Kinds with at least one sample."""
        return len(self._samples)

    def add(self, kind: StepKind, seconds: float) -> None:
        """Note a step of `Plan.kinds_of` or `Plan.context_kinds`."""
        self._samples.setdefault(kind, []).append(seconds)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of requests of which each kind has a sample."""
        return tuple(
            size
            for size in self.plan.sizes
            if all(kind in self._samples for kind in self.plan.kinds_of(size))
        )

    def typical_s(self, kind: StepKind) -> float:
        """Its duration by the samples so far. It must have been measured."""
        samples = self._samples[kind]
        return median(samples[1:]) if len(samples) > 2 else min(samples)

    def round_s(self, num_requests: int) -> float:
        """Seconds of a round of that size. It must have been measured."""
        return sum(self.typical_s(kind) for kind in self.plan.kinds_of(num_requests))

    def table(self) -> CostTable:
        """The table of all sizes that were measured, at least one."""
        plan = self.plan
        sizes = self.sizes
        verify = [[self.typical_s(plan.kind(n, w, 0)) for w in plan.lengths] for n in sizes]
        draft = [[self.typical_s(plan.kind(n, 0, k)) for k in plan.lengths] for n in sizes]
        _lower_to_larger(verify)
        _lower_to_larger(draft)
        context_s, draft_context_s = self._context_slopes()
        return CostTable(
            sizes=sizes,
            lengths=plan.lengths,
            verify_s=tuple(map(tuple, verify)),
            draft_s=fit_drafts(sizes, plan.lengths, draft),
            context_tokens=plan.context_tokens,
            context_s=context_s,
            draft_context_s=draft_context_s,
        )

    def _context_slopes(self) -> tuple[float, float]:
        """Seconds per further token of context: of the target's pass, and of each draft pass."""
        plan = self.plan
        if plan.long is None:
            return 0.0, 0.0
        short, long = plan.context_kinds()
        if not all(kind in self._samples for kind in (*short, *long)):
            return 0.0, 0.0
        target_s, both_s = (
            self.typical_s(b) - self.typical_s(a) for a, b in zip(short, long, strict=True)
        )
        tokens = plan.long.num_requests * (plan.long.context_tokens - plan.context_tokens)
        draft_s = both_s - target_s
        return max(target_s, 0.0) / tokens, max(draft_s, 0.0) / (tokens * max(plan.longest, 1))


def _lower_to_larger(rows: list[list[float]]) -> None:
    """Lower each cell to the least of those with its row and column or larger ones.

    >>> rows = [[1.0, 5.0, 3.0], [4.0, 4.0, 6.0]]
    >>> _lower_to_larger(rows)
    >>> rows
    [[1.0, 3.0, 3.0], [4.0, 4.0, 6.0]]
    """
    for row in rows:
        for column in reversed(range(len(row) - 1)):
            row[column] = min(row[column], row[column + 1])
    for larger, row in pairwise(reversed(rows)):
        row[:] = map(min, row, larger)
