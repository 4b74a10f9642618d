"""How long one engine step takes, from the figures of the models and the hardware.

A forward pass over t tokens (padded to a captured graph size) with c tokens of context:

    seconds = max(weight_bytes / bandwidth, 2 * params * t / flops) / TP
              + kv_bytes * c / bandwidth / TP
              + 2 * layers * (latency + t * hidden * 2 bytes / link)      where TP > 1
              + overhead

bandwidth and flops are the peaks times the fractions of them that are reached. The target passes
over all tokens of the step once; the draft model first over the same tokens, then over one token
per request for every further draft token; what it missed while resting it passes over before, and
what it judges in hindsight after.

Assumes dense models, bfloat16, perfect overlap of memory and arithmetic within a pass, and none
between passes. Leaves out attention arithmetic (small beside its bytes when decoding; it makes long
prefills look cheaper than they are). Reference: Williams et al., "Roofline", CACM 2009; for
transformers: Pope et al., arXiv 2211.05102.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.policy_simulator.machines.cost import GraphSizes, StepShape

_BYTES_PER_ACTIVATION = 2


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """A dense transformer in bfloat16."""

    params: float
    """Read and multiplied in every pass: layers and output head, not the embedding table."""
    num_layers: int
    hidden_size: int
    kv_bytes_per_token: float

    @property
    def weight_bytes(self) -> float:
        return 2.0 * self.params


@dataclass(frozen=True, slots=True)
class HardwareFigures:
    """`tensor_parallel` GPUs of one kind and their links."""

    tensor_parallel: int
    bandwidth_bytes_per_s: float
    bandwidth_fraction: float
    flops_per_s: float
    flops_fraction: float
    all_reduce_latency_s: float
    all_reduce_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class RooflineCost:
    """Step time of a target and, where there is one, its draft model on the same GPUs."""

    target: ModelFigures
    draft: ModelFigures | None
    hardware: HardwareFigures
    judge_s: float
    """The rejection sampler instead of the plain one, where there is anything to verify."""
    step_overhead_s: float
    """Scheduling, input preparation, sampling, output: whatever no pass overlaps."""
    draft_overhead_s: float
    """Around each draft pass: launches, sampling, the next input."""
    graphs: GraphSizes

    def step_s(self, shape: StepShape) -> float:
        tokens = self.graphs.pad(shape.tokens)
        seconds = self.step_overhead_s + self._pass_s(self.target, tokens, shape.context_tokens)
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
        if shape.replay_scoring_requests:
            seconds += self._draft_pass_s(self.draft, shape.replay_scoring_tokens, 0.0)
        return seconds

    def _draft_pass_s(self, draft: ModelFigures, tokens: float, context_tokens: float) -> float:
        return self.draft_overhead_s + self._pass_s(draft, tokens, context_tokens)

    def _pass_s(self, model: ModelFigures, tokens: float, context_tokens: float) -> float:
        hardware = self.hardware
        bandwidth = hardware.bandwidth_bytes_per_s * hardware.bandwidth_fraction
        flops = hardware.flops_per_s * hardware.flops_fraction
        weights_s = max(model.weight_bytes / bandwidth, 2.0 * model.params * tokens / flops)
        context_s = model.kv_bytes_per_token * context_tokens / bandwidth
        seconds = (weights_s + context_s) / hardware.tensor_parallel
        if hardware.tensor_parallel > 1:
            message_bytes = tokens * model.hidden_size * _BYTES_PER_ACTIVATION
            seconds += (
                2
                * model.num_layers
                * (hardware.all_reduce_latency_s + message_bytes / hardware.all_reduce_bytes_per_s)
            )
        return seconds
