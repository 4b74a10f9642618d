"""The prompts that are computed along with decodes, in proportion to the tokens of the answers.

Over a while, prompts and answers keep their proportion: every request brings its prompt once. So a
draft length that yields more tokens per step also has more prompt tokens in a step, and more of the
requests prefilling. For steps that yield y tokens, of which each decoding request gets r,

    prompt tokens(y) = y * prompt tokens / output tokens
    fraction(y)      = 1 - exp(-y * pieces / output tokens)      (share of steps with prompt tokens)
    decoding(r)      = n / (1 + r * prefilling / output tokens)  (of n requests)

with `pieces` = -log(1 - fraction) per step: pieces of prompts are taken for independent of each
other (Poisson). The estimates are means over the last steps, not what one step has: what is drafted
now is verified in the next step, whose prompts are unknown, and a length that followed every prompt
would change all the time.

Assumes a steady state. Steps in which most requests are prefilling are left out: such bursts, at a
start or when the load rises, bring prompts whose answers come later.
"""

from __future__ import annotations

import math

from paceline.governor.values import StepSample

_KEEP = 1.0 - 1.0 / 64.0
"""Per step. Chosen empirically on the simulator."""
_MAX_FRACTION = 0.98
"""Where nearly all steps have prompt tokens, the number of pieces is unknown; 0.98 means four."""
_LEAST_MIXED = 1e-3
"""Weight at which the last prompt is forgotten."""


class PrefillMix:
    """Learns how many prompt tokens come along with output tokens."""

    def __init__(self) -> None:
        self._steps = self._mixed = self._prompt = 0.0
        self._outputs = self._decoding = self._prefilling = 0.0
        self.fraction = 0.0
        """Share of the recent steps with prompt tokens; 0 when none came for long. Read only."""
        self.pieces_per_output = 0.0
        """Pieces of prompts per output token. Read only."""
        self.tokens_per_output = 0.0
        """Prompt tokens per output token. Read only."""

    def observe(self, sample: StepSample) -> None:
        """Count one step, clean or not."""
        num_prefilling = sample.num_prefilling
        num_decoding = sample.num_requests - num_prefilling
        if num_decoding <= num_prefilling:
            return
        is_mixed = sample.prefill_tokens > 0
        self._steps = _KEEP * self._steps + 1.0
        self._outputs = _KEEP * self._outputs + num_decoding + sum(sample.accepted)
        self._decoding = _KEEP * self._decoding + num_decoding
        if self.fraction == 0.0 and not is_mixed:
            return
        self._mixed = _KEEP * self._mixed + is_mixed
        self._prompt = _KEEP * self._prompt + sample.prefill_tokens
        self._prefilling = _KEEP * self._prefilling + num_prefilling
        if self._mixed < _LEAST_MIXED:
            self._mixed = self._prompt = self._prefilling = self.fraction = 0.0
            return
        self.fraction = self._mixed / self._steps
        pieces = -math.log(1.0 - min(self.fraction, _MAX_FRACTION))
        self.pieces_per_output = pieces * self._steps / self._outputs
        self.tokens_per_output = self._prompt / self._outputs

    def stretch(self, tokens_per_request: float) -> float:
        """How many times as many requests are decoding now as would be if each decoding request got
        `tokens_per_request` in a step, and all requests were as many as now."""
        now = 1.0 + self._prefilling / self._decoding
        return (1.0 + tokens_per_request * self._prefilling / self._outputs) / now
