"""The time of a forward pass, from the figures of the model and the hardware.

A forward pass over t tokens with c tokens of context takes

    seconds = max(weight_bytes / bandwidth, 2 * params * t / flops) / TP
              + kv_bytes * c / bandwidth / TP
              + 2 * layers * (latency + t * hidden * 2 bytes / link)      where TP > 1

bandwidth and flops are the hardware's peaks times the fraction of each that is reached.

Assumes dense models, bfloat16, and perfect overlap of memory and arithmetic within a pass. Ignores
attention arithmetic: when decoding it is small compared with the bytes that attention reads, but
long prefills look cheaper than they are. Reference: Williams et al., "Roofline", CACM 2009; for
transformers: Pope et al., arXiv 2211.05102.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        """Bytes of the weights that a pass reads."""
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


def forward_pass_s(
    model: ModelFigures, hardware: HardwareFigures, tokens: float, context_tokens: float
) -> float:
    """Seconds of one forward pass over `tokens`, whose requests have `context_tokens` together.

    >>> small = ModelFigures(params=1e9, num_layers=10, hidden_size=1000, kv_bytes_per_token=1e4)
    >>> gpu = HardwareFigures(1, 2e12, 0.5, 4e14, 0.5, 1e-5, 1e11)
    >>> forward_pass_s(small, gpu, 100, 0)  # reading 2 GB at 1 TB/s
    0.002
    >>> forward_pass_s(small, gpu, 400, 0)  # 2 GFLOP per token at 200 TFLOP/s
    0.004
    """
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
