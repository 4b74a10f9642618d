"""Prompt tokens that come along with decodes, per token of the answers.

Over a while, prompts and answers keep their proportion: every request brings its prompt once. So a
draft length that yields more tokens per step also has more prompt tokens in a step, and a step that
is full of prompts leaves less room in which draft tokens cost little.

Assumes a steady state. Steps in which most requests are prefilling are left out: such bursts, at a
start or when the load rises, bring prompts whose answers come later.
"""

from __future__ import annotations

from paceline.governor.values import StepSample

_KEEP = 1.0 - 1.0 / 64.0
"""Per step. Chosen empirically on the simulator."""


class PromptShare:
    """Learns how many prompt tokens come along with each output token."""

    def __init__(self) -> None:
        self._prompt = self._outputs = 0.0
        self.per_output = 0.0
        """Prompt tokens per output token. Read only."""

    def observe(self, sample: StepSample) -> None:
        """Count one step's prompt and output tokens."""
        num_decoding = sample.num_requests - sample.num_prefilling
        if sample.num_prefilling > num_decoding:
            return
        self._prompt = _KEEP * self._prompt + sample.prefill_tokens
        self._outputs = _KEEP * self._outputs + num_decoding + sum(sample.accepted)
        self.per_output = self._prompt / self._outputs if self._outputs else 0.0
