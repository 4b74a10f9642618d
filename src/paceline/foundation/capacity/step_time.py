"""The time of an engine step, from shapes, weight formats and hardware.

A pass over t tokens of n requests that have c tokens of context each takes

    read   = (weights read + KV of n * c tokens) / reached bandwidth
    work   = 2 * active parameters * t / reached arithmetic
    pass   = max(read, work) + layers * (launches + 2 all-reduces where TP > 1)

on GPUs, and read + work in the place of the maximum on CPUs. A step adds the engine's own time, per
step and per request, and with drafts the rejection sampler and the passes of the draft model. The
weights read by a mixture of experts grow with the number of tokens.

`roofline` has the simulator's simpler form, for dense models in bfloat16. References: Williams et
al., "Roofline", CACM 2009; Pope et al., arXiv 2211.05102.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.model.kv_layout import KvLayers
from paceline.foundation.capacity.model.shape import LatentAttention, ModelShape
from paceline.foundation.capacity.model.weight_format import DTYPE_BYTES, WeightFormat
from paceline.foundation.capacity.model.weights import PassWork, pass_work

_MAX_PREFILL_TOKENS_PER_STEP = 8192
"""vLLM's default max_num_batched_tokens of the API server on GPUs from 70 GiB."""


@dataclass(frozen=True, slots=True)
class ModelTime:
    """One model on its hardware: the time of its passes."""

    shape: ModelShape
    work: PassWork
    layers: Sequence[KvLayers]
    hardware: Hardware
    tensor_parallel: int
    flops_per_s: float
    """Peak in the format that this model's matrices are multiplied in."""
    dtype_bytes: int

    def pass_s(
        self,
        tokens: float,
        requests: float,
        context_tokens: float,
        sampled_tokens: float | None = None,
    ) -> float:
        """Seconds of a pass over `tokens` of `requests` that have `context_tokens` each.

        The output head computes `sampled_tokens`; all tokens by default.
        """
        hardware = self.hardware
        bandwidth = hardware.bandwidth_bytes_per_s * hardware.bandwidth_fraction
        cached = requests * self._cached_bytes(context_tokens)
        read_s = (self.work.read_bytes(tokens) + cached) / bandwidth
        sampled = tokens if sampled_tokens is None else sampled_tokens
        multiplied = self.work.active_params * tokens + self.work.head_params * sampled
        work_s = 2.0 * multiplied / self._reached_flops()
        body_s = read_s + work_s if hardware.sums_memory_and_arithmetic else max(read_s, work_s)
        return body_s + self.shape.num_layers * (
            hardware.overheads.layer_s + 2 * self._all_reduce_s(tokens)
        )

    def prefill_s(self, prompt_tokens: float) -> float:
        """Seconds to compute a prompt, with the arithmetic of causal attention."""
        attention = self.shape.attention
        if isinstance(attention, LatentAttention):
            scored = attention.qk_nope_head_dim + attention.qk_rope_head_dim
            width = attention.num_heads * (scored + attention.v_head_dim)
        else:
            width = attention.num_heads * attention.head_dim * 2
        windows = (min(prompt_tokens, seen or prompt_tokens) for seen in self.shape.sliding_windows)
        pairs = sum(prompt_tokens * window - window * window / 2 for window in windows)
        attention_s = 2.0 * width * pairs / self.tensor_parallel / self._reached_flops()
        steps = max(1.0, prompt_tokens / _MAX_PREFILL_TOKENS_PER_STEP)
        each = prompt_tokens / steps
        return steps * self.pass_s(each, 1.0, 0.0, sampled_tokens=1.0) + attention_s

    def _cached_bytes(self, context_tokens: float) -> float:
        return sum(
            layer.num_layers
            * layer.bytes_per_token
            * min(context_tokens, layer.window or context_tokens)
            for layer in self.layers
        )

    def _reached_flops(self) -> float:
        return self.flops_per_s * self.hardware.flops_fraction

    def _all_reduce_s(self, tokens: float) -> float:
        size = self.tensor_parallel
        if size == 1:
            return 0.0
        link = self.hardware.link
        message = tokens * self.shape.hidden_size * self.dtype_bytes
        return link.all_reduce_latency_s + 2 * (size - 1) / size * message / link.bytes_per_s


@dataclass(frozen=True, slots=True)
class StepTime:
    """A target and its drafter: the time of a step at every batch size and draft length."""

    target: ModelTime
    draft: ModelTime | None
    """None without a draft model: n-gram and suffix drafts cost no pass."""

    def decode_s(self, requests: float, context_tokens: float, draft_length: int = 0) -> float:
        """Seconds of a step in which every request decodes, verifying `draft_length` drafts."""
        overheads = self.target.hardware.overheads
        drafts = requests * draft_length
        seconds = (
            overheads.step_s
            + overheads.request_s * requests
            + self.target.pass_s(requests + drafts, requests, context_tokens)
        )
        if not draft_length:
            return seconds
        seconds += overheads.verify_s + overheads.verify_token_s * drafts
        if self.draft is not None:
            seconds += draft_length * (
                overheads.draft_pass_s
                + overheads.draft_request_s * requests
                + self.draft.pass_s(requests, requests, context_tokens)
            )
        return seconds

    def prefill_s(self, prompt_tokens: float) -> float:
        """Seconds of the steps that compute one prompt, in the target and in the draft model."""
        seconds = self.target.hardware.overheads.step_s + self.target.prefill_s(prompt_tokens)
        if self.draft is not None:
            seconds += self.draft.prefill_s(prompt_tokens)
        return seconds


def model_time(
    shape: ModelShape,
    weight_format: WeightFormat,
    layers: Sequence[KvLayers],
    hardware: Hardware,
    tensor_parallel: int,
) -> ModelTime:
    """Return the times of a model on `tensor_parallel` GPUs of a kind.

    Raises ValueError where the hardware computes in none of the formats that the model allows.
    """
    dtype = weight_format.dtype
    name = hardware.compute_format(weight_format.name, dtype)
    if name not in hardware.flops_per_s:
        raise ValueError(
            f"{hardware.name} does not compute in {dtype}; it has "
            f"{', '.join(sorted(hardware.flops_per_s))}. Set --dtype"
        )
    return ModelTime(
        shape,
        pass_work(shape, weight_format, tensor_parallel),
        tuple(layers),
        hardware,
        tensor_parallel,
        hardware.flops_per_s[name],
        DTYPE_BYTES[dtype],
    )
