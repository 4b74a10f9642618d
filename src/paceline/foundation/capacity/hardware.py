"""A kind of GPU, or a CPU machine, as far as a plan depends on it.

Peaks are those of the data sheet. The fractions of them that are reached, and the time of a step
that is neither memory nor arithmetic, belong to the kind too; a catalogue states the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between GPUs of one machine."""

    name: str
    bytes_per_s: float
    """Each way, for one GPU."""
    all_reduce_latency_s: float
    """Of a small message, among all GPUs of the machine."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """Time of a step that is neither memory nor arithmetic, in seconds."""

    step_s: float
    """Scheduling, input preparation, sampling and output of a step with one request."""
    layer_s: float
    """Launches of each layer in each pass."""
    request_s: float
    """Each request of a step."""
    verify_s: float
    """The rejection sampler, in a step with drafts."""
    verify_token_s: float
    """Each draft token of a step, without its arithmetic."""
    draft_pass_s: float
    """Around each pass of a draft model."""
    draft_request_s: float = 0.0
    """Each request in each pass of a draft model."""

    def scaled(self, factor: float) -> Overheads:
        """All of them times `factor`."""
        return Overheads(
            self.step_s * factor,
            self.layer_s * factor,
            self.request_s * factor,
            self.verify_s * factor,
            self.verify_token_s * factor,
            self.draft_pass_s * factor,
            self.draft_request_s * factor,
        )


@dataclass(frozen=True, slots=True)
class Hardware:
    """One GPU of a kind, or a whole CPU machine."""

    name: str
    is_cpu: bool
    memory_bytes: int
    bandwidth_bytes_per_s: float
    bandwidth_fraction: float
    flops_per_s: Mapping[str, float]
    """Dense, by number format: "bfloat16", "float16", "float32", "fp8", "int8"."""
    flops_fraction: float
    link: Link
    gpus_per_machine: int
    """GPUs that the link connects."""
    usd_per_hour: float
    """Of one GPU in the smallest machine that is sold, or of the CPU machine; 0 if unknown."""
    kv_block_tokens: int
    overheads: Overheads
    sums_memory_and_arithmetic: bool = False
    """Whether a pass takes the sum of both times; otherwise the longer one hides the other."""

    def compute_format(self, weights: str, dtype: str) -> str:
        """The number format that matrices are multiplied in; `dtype` where `weights` has none.

        Weights of 4 bits are expanded to `dtype`, NVFP4 with inputs of 4 bits apart, and so are
        formats that the hardware lacks.
        """
        wanted = {"fp8": "fp8", "w8a8": "int8", "nvfp4": "nvfp4"}.get(weights, dtype)
        return wanted if wanted in self.flops_per_s else dtype

    def calibrated(self, factor: float) -> Hardware:
        """The same hardware, `factor` times as slow in everything."""
        return replace(
            self,
            bandwidth_fraction=self.bandwidth_fraction / factor,
            flops_fraction=self.flops_fraction / factor,
            overheads=self.overheads.scaled(factor),
        )
