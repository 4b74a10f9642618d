"""How many prompt tokens an engine computes per token of the answers.

Over a while, prompts and answers keep their proportion: every request brings its prompt once, in
one piece or in several. So a draft length that yields more tokens per step also has more pieces of
prompts in a step. In a step with a piece that fills it, draft tokens cost more than in the others.

Assumes a steady state. Steps in which most requests are prefilling are left out: such bursts, at a
start or when the load rises, bring prompts whose answers come later.
"""

from __future__ import annotations

from paceline.runtime.governor.values import StepSample

_KEEP = 1.0 - 1.0 / 64.0
"""Per step. Chosen empirically on the simulator."""


class PromptShare:
    """Learns how many prompt tokens are computed per output token, and in how many steps."""

    def __init__(self) -> None:
        self._outputs = self._decoding = self._prefilling = 0.0
        self._steps_with_prompts = self._prompt_tokens = 0.0

    @property
    def pieces_per_output(self) -> float:
        """Steps with prompt tokens per output token."""
        return self._steps_with_prompts / self._outputs if self._outputs else 0.0

    @property
    def piece_tokens(self) -> float:
        """Mean prompt tokens of a step that has some."""
        steps = self._steps_with_prompts
        return self._prompt_tokens / steps if steps else 0.0

    def stretch(self, tokens_per_request: float) -> float:
        """How many times as many requests are decoding now as would be if each decoding request got
        `tokens_per_request` in a step, and all requests were as many as now."""
        if not self._prefilling:
            return 1.0
        now = 1.0 + self._prefilling / self._decoding
        return (1.0 + tokens_per_request * self._prefilling / self._outputs) / now

    def observe(self, sample: StepSample) -> None:
        """Count one step's prompt and output tokens."""
        num_decoding = sample.num_requests - sample.num_prefilling
        if sample.num_prefilling > num_decoding:
            return
        outputs = num_decoding + sum(sample.accepted)
        self._outputs = _KEEP * self._outputs + outputs
        self._decoding = _KEEP * self._decoding + num_decoding
        self._prefilling = _KEEP * self._prefilling + sample.num_prefilling
        self._steps_with_prompts = _KEEP * self._steps_with_prompts + (sample.prefill_tokens > 0)
        self._prompt_tokens = _KEEP * self._prompt_tokens + sample.prefill_tokens
