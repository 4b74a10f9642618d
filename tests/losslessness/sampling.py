"""Test sampled output against the target's distribution with a G-test.

Every sampled token is compared with the exact distribution it should come from: the target's
log-probabilities given the tokens before, after temperature, top-k and top-p. Samples after the
same prefix form one multinomial; the G statistics and degrees of freedom of all prefixes add up:

    G = 2 * sum over tokens of observed * ln(observed / expected),   G ~ chi-square(cells - 1)

Tokens with an expected count under 5 share one cell, because the chi-square approximation is poor
for small counts. One token outside the distribution's support already rejects it.
Reference: Sokal and Rohlf, Biometry (1981), on the G-test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import chi2

Prefix = tuple[int, ...]

REST = -1
"""The cell of all tokens that a distribution does not name."""
_MIN_EXPECTED = 5.0


@dataclass(frozen=True, slots=True)
class GTest:
    """The sum of the G-tests over all prefixes."""

    statistic: float
    num_degrees: int
    num_samples: int
    num_outside: int
    """Samples to which the distribution gives no probability."""

    @property
    def p_value(self) -> float:
        """Probability of at least this deviation if the distribution is right; 0 if outside it."""
        if self.num_outside:
            return 0.0
        return float(chi2.sf(self.statistic, self.num_degrees)) if self.num_degrees else 1.0


def processed_distribution(
    logprobs: Mapping[int, float], *, temperature: float, top_k: int, top_p: float
) -> dict[int, float]:
    """The distribution that vLLM samples from: temperature, then top-k, then top-p.

    `logprobs` are raw and cover at least the top_k best tokens. Without top-k (0), temperature and
    top_p must be 1, and the tokens not given become `REST`. Top-p keeps the fewest best tokens
    whose share of the probability that top-k left reaches top_p.
    """
    if top_k == 0:
        if temperature != 1.0 or top_p != 1.0:
            raise ValueError("without top_k, temperature and top_p must be 1")
        named = {token_id: math.exp(logprob) for token_id, logprob in logprobs.items()}
        return {**named, REST: max(1.0 - sum(named.values()), 0.0)}
    if len(logprobs) < top_k:
        raise ValueError(f"{len(logprobs)} log-probabilities given; top_k {top_k} needs that many")
    best = sorted(logprobs.items(), key=lambda item: -item[1])[:top_k]
    weights = [math.exp((logprob - best[0][1]) / temperature) for _, logprob in best]
    total = sum(weights)
    kept: dict[int, float] = {}
    reached = 0.0
    for (token_id, _), weight in zip(best, weights, strict=True):
        if kept and reached >= top_p:
            break
        kept[token_id] = weight / total
        reached += weight / total
    return {token_id: share / reached for token_id, share in kept.items()}


def g_test(
    samples: Mapping[Prefix, Counter[int]], expected: Mapping[Prefix, Mapping[int, float]]
) -> GTest:
    """Test the tokens sampled after each prefix against the distribution expected there."""
    statistic, num_degrees, num_samples, num_outside = 0.0, 0, 0, 0
    for prefix, counts in samples.items():
        distribution = expected[prefix]
        if REST in distribution:
            counts = _with_rest(counts, distribution)
        total = counts.total()
        num_samples += total
        num_outside += sum(n for token_id, n in counts.items() if token_id not in distribution)
        cells: list[tuple[float, float]] = []
        rare_seen, rare_expected = 0.0, 0.0
        for token_id, share in distribution.items():
            if total * share < _MIN_EXPECTED:
                rare_seen += counts[token_id]
                rare_expected += total * share
            else:
                cells.append((counts[token_id], total * share))
        if rare_expected > 0.0:
            cells.append((rare_seen, rare_expected))
        if len(cells) < 2:
            continue
        statistic += 2.0 * sum(seen * math.log(seen / due) for seen, due in cells if seen)
        num_degrees += len(cells) - 1
    return GTest(statistic, num_degrees, num_samples, num_outside)


def _with_rest(counts: Counter[int], distribution: Mapping[int, float]) -> Counter[int]:
    merged: Counter[int] = Counter()
    for token_id, count in counts.items():
        merged[token_id if token_id in distribution else REST] += count
    return merged


def by_prefix(
    outputs: Sequence[Sequence[int]], *, first_position: int, min_samples: int
) -> dict[Prefix, Counter[int]]:
    """Group sampled tokens by the output before them, from `first_position` of the output on.

    Prefixes seen fewer than `min_samples` times are left out: they hold no evidence.
    """
    groups: dict[Prefix, Counter[int]] = {}
    for output in outputs:
        for position in range(first_position, len(output)):
            prefix = tuple(output[:position])
            groups.setdefault(prefix, Counter())[output[position]] += 1
    return {prefix: counts for prefix, counts in groups.items() if counts.total() >= min_samples}
