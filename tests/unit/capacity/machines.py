"""Hardware with round figures, for hand calculations."""

from __future__ import annotations

from paceline.foundation.capacity.hardware import Hardware, Link, Overheads

NO_OVERHEADS = Overheads(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

GPU = Hardware(
    name="round",
    is_cpu=False,
    memory_bytes=10 * 1024**3,
    bandwidth_bytes_per_s=1e9,
    bandwidth_fraction=0.5,
    flops_per_s={"bfloat16": 1e12, "float16": 1e12, "fp8": 2e12},
    flops_fraction=0.5,
    link=Link("NVLink", 1e9, 1e-6),
    gpus_per_machine=8,
    usd_per_hour=2.0,
    kv_block_tokens=16,
    overheads=NO_OVERHEADS,
)
"""Reaches 0.5 GB/s and 0.5 TFLOP/s in bfloat16."""
