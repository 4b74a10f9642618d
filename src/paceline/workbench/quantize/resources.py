"""How much disk and memory a quantization needs, and the refusal to begin without them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.job import Job

_MARGIN = 1.1
"""Headers, alignment, and files that grow meanwhile."""
_BASE_BYTES = 1024**3
"""Python, torch and transformers take some 0.7 GB."""
_WORKING_COPIES = 4
"""Float32 copies of a layer's matrices while it is quantized: weights, grid, error, best."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run needs in addition to what is in use."""

    disk_bytes: int
    memory_bytes: int


def estimate_needs(job: Job) -> Needs:
    """Return the needs of the own quantization."""
    layers: dict[int, int] = {}
    rest = matrices = 0
    for name, tensor in job.source.tensors.items():
        at = job.source.layer_of(name)
        num_weights = math.prod(tensor.shape)
        if at is None:
            rest += tensor.num_bytes
            continue
        layers[at[0]] = layers.get(at[0], 0) + num_weights
        if len(tensor.shape) == 2:
            matrices += num_weights
        else:
            rest += tensor.num_bytes
    stored_bits = job.scheme.bits + (32 / (job.group_size or 128))
    disk = (rest + matrices * stored_bits / 8) * _MARGIN
    largest_layer = 4 * max(layers.values(), default=0)
    memory = _BASE_BYTES + _WORKING_COPIES * largest_layer
    if job.calibration is not None:
        hidden = int(job.source.config.get("hidden_size", 0))
        inputs = max(
            (t.shape[1] for t in job.source.tensors.values() if len(t.shape) == 2), default=0
        )
        memory += 4 * job.source.num_params
        memory += 2 * 4 * job.calibration.num_tokens * hidden
        memory += 4 * 4 * inputs * inputs if job.scheme.name == "gptq" else 0
    return Needs(int(disk), memory)


def check_resources(needs: Needs, *, free_disk_bytes: int, available_memory_bytes: int) -> None:
    """Raise QuantizeError if the disk or the memory does not suffice; it says by how much."""
    if needs.disk_bytes > free_disk_bytes:
        raise QuantizeError(
            f"the result needs about {_gb(needs.disk_bytes)} on the disk of --out, and "
            f"{_gb(free_disk_bytes)} are free; choose another disk, or free some"
        )
    if needs.memory_bytes > available_memory_bytes:
        raise QuantizeError(
            f"this run needs about {_gb(needs.memory_bytes)} of memory, and "
            f"{_gb(available_memory_bytes)} are available; use a machine with more, or "
            "--scheme w8a8 or fp8, which hold one layer at a time"
        )


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f} GB"
