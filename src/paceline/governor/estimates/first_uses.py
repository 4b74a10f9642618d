"""Which steps are the first of their size, and therefore slow.

The first step of a size creates the kernels for it: on CPUs it takes 10 to 40 ms longer, where the
next one takes 15 (*observed* with vLLM 0.32 and compiled models). Of a length that is tried for one
or two steps only, that would be all that is known, and a length that looks expensive is not tried
again: a draft of one token looked twice as expensive as it was for the rest of a run.

So the cost model learns nothing from the first step of each size, as long as few steps of about
that size are known; at most `_MAX_LEFT_OUT` are left out of these, since where sizes hardly repeat
(an n-gram drafter) every step is the first of its size.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from paceline.governor.values import StepSample

_FEW = 4
_MAX_LEFT_OUT = 2
_MAX_SIZES = 4096
"""Sizes remembered. A step of any further one counts like others."""

_Size = tuple[int, int, int]
"""Tokens drafted per request, requests, draft tokens verified."""


class FirstUses:
    """Remembers the sizes seen."""

    def __init__(self) -> None:
        self._seen: set[_Size] = set()
        self._num_known: Counter[_Size] = Counter()
        self._num_left_out: Counter[_Size] = Counter()

    def without_cost(self, sample: StepSample) -> StepSample:
        """The sample; not clean when its duration is that of a first use."""
        if not sample.is_clean or sample.prefill_tokens:
            return sample
        length, requests = sample.draft_length, sample.num_requests
        verified = sample.verified_draft_tokens
        about = (length, requests.bit_length(), verified.bit_length())
        if self._num_known[about] < _FEW and self._num_left_out[about] < _MAX_LEFT_OUT:
            size = (length, requests, verified)
            if size not in self._seen and len(self._seen) < _MAX_SIZES:
                self._seen.add(size)
                self._num_left_out[about] += 1
                return replace(sample, is_clean=False)
        self._num_known[about] += 1
        return sample
