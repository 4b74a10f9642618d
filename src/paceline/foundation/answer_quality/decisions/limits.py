"""What the gate allows, and how often it may err."""

from __future__ import annotations

from dataclasses import dataclass

REJECT_ERROR = 0.002
"""Of each of the five tests that may reject: divergence of the typical conversation and of the
extreme ones, perplexity of the typical conversation and in the mean, task score in the mean."""
FALSE_REJECTION = 5 * REJECT_ERROR
"""A sound candidate is rejected with at most this probability, if the conversations are independent
and, for the two tests of the typical conversation, their differences symmetric."""
APPROVE_ERROR = 0.05
"""Of each of the three proofs that an approval needs: divergence of the typical conversation, mean
perplexity, mean task score. All three are needed, so a candidate whose mean loss of perplexity or
of task score is beyond its limit is approved with at most this probability, if the conversations
are drawn independently from the traffic. The proof of the divergence assumes symmetry as well."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest losses that pass."""

    divergence_ratio: float = 2.0
    """Divergence from the baseline, relative to that of plain rounding to the same format. Chosen:
    a fault passes as long as it costs less than rounding itself. Two attention kernels in bfloat16
    differ by a factor of 1.5; calibrated methods are below 1."""
    perplexity_increase: float = 0.02
    """Relative, in the mean over conversations. 0.02 is the usual promise for quantized models."""
    score_loss: float = 0.02
    """Mean task score, absolute."""

    def __post_init__(self) -> None:
        if not self.divergence_ratio >= 1:
            raise ValueError(f"divergence_ratio is {self.divergence_ratio}; it must be at least 1")
        for name in ("perplexity_increase", "score_loss"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; it must be above 0 and at most 1"
                )
