"""Test a sample of each module's mutants, and estimate the share of all that would be killed.

    share = sum over modules of  N_m * killed_m / n_m,  over  sum of N_m

with N_m mutants of module m, n_m of them tested: an unbiased estimate for a stratified sample
(Cochran, Sampling Techniques, chapter 5). The variance within a module is that of drawing without
replacement, with one killed and one survivor added so that a module whose few tested mutants were
all killed is not taken for certain.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.mutation.mutants import Mutant

_DEVIATIONS = 1.96  # of a normal distribution, for 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """An estimate with its 95 % interval, all in 0…1."""

    estimate: float
    low: float
    high: float

    def describe(self) -> str:
        """The share in words; without an interval where every mutant was tested."""
        if self.low == self.high:
            return f"{self.estimate:.1%}"
        return f"an estimated {self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})"


def draw(mutants: Sequence[Mutant], num: int) -> list[Mutant]:
    """Return `num` mutants, or all if there are fewer, in their order. The same mutants always
    give the same sample."""
    by_digest = sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.source.encode()).digest())
    drawn = {mutant.source for mutant in by_digest[:num]}
    return [mutant for mutant in mutants if mutant.source in drawn]


def killed_share(modules: Iterable[tuple[int, int, int]]) -> Share:
    """Estimate the killed share of all mutants from (all, tested, killed) of each module; 1 where
    no module has mutants."""
    num_all, killed, variance = 0, 0.0, 0.0
    for num, num_tested, num_killed in modules:
        if num == 0:
            continue
        num_all += num
        killed += num * num_killed / num_tested
        likely = (num_killed + 1) / (num_tested + 2)
        untested = 1.0 - num_tested / num
        variance += num**2 * untested * likely * (1.0 - likely) / num_tested
    if num_all == 0:
        return Share(1.0, 1.0, 1.0)
    share, error = killed / num_all, _DEVIATIONS * math.sqrt(variance) / num_all
    return Share(share, max(share - error, 0.0), min(share + error, 1.0))
