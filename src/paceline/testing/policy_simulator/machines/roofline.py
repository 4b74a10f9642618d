"""The duration of an engine step, from the figures of the models and the hardware.

The target passes over all tokens of the step once. The draft model passes over the same tokens
first, and then over one token per request for every further draft token; before that over the
tokens it missed while resting. Every pass has the time of `capacity.roofline.forward_pass_s`, its
tokens padded to a captured graph size, and a fixed overhead. Passes do not overlap. Outside of full
graphs, launches add a time per layer to the target's pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.capacity.roofline import HardwareFigures, ModelFigures, forward_pass_s
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import GraphSizes


@dataclass(frozen=True, slots=True)
class RooflineCost:
    """Step time of a target and, where there is one, its draft model on the same GPUs."""

    target: ModelFigures
    draft: ModelFigures | None
    hardware: HardwareFigures
    judge_s: float
    """The rejection sampler instead of the plain one, where there is anything to verify."""
    step_overhead_s: float
    """Scheduling, input preparation, sampling, output: everything that no pass overlaps."""
    draft_overhead_s: float
    """Around each draft pass: launches, sampling, the next input."""
    graphs: GraphSizes
    piecewise_layer_s: float = 0.0
    """What launches add to each layer of the target outside of full graphs."""

    def step_s(self, shape: StepShape) -> float:
        tokens, is_full = self.graphs.find(shape.tokens, shape.tokens_per_request)
        seconds = self.step_overhead_s + self._pass_s(self.target, tokens, shape.context_tokens)
        if not is_full:
            seconds += self.target.num_layers * self.piecewise_layer_s
        if shape.verified_draft_tokens > 0:
            seconds += self.judge_s
        if self.draft is None:
            return seconds
        if shape.catch_up_tokens:
            seconds += self._draft_pass_s(self.draft, shape.catch_up_tokens, 0.0)
        if shape.draft_passes:
            seconds += self._draft_pass_s(self.draft, tokens, shape.context_tokens)
        if shape.draft_passes > 1:
            one_each = self.graphs.pad(shape.num_requests)
            further_s = self._draft_pass_s(self.draft, one_each, shape.context_tokens)
            seconds += (shape.draft_passes - 1) * further_s
        return seconds

    def _draft_pass_s(self, draft: ModelFigures, tokens: float, context_tokens: float) -> float:
        return self.draft_overhead_s + self._pass_s(draft, tokens, context_tokens)

    def _pass_s(self, model: ModelFigures, tokens: float, context_tokens: float) -> float:
        return forward_pass_s(model, self.hardware, tokens, context_tokens)
