"""Disk and memory are checked before the work begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.foundation.quantized.calibration import Calibration
from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.job import Job
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.foundation.quantized.source_model import SourceModel, StoredTensor
from paceline.workbench.quantize.resources import Needs, check_resources, estimate_needs


def job(scheme: str, calibration: Calibration | None = None) -> Job:
    """A model of two layers with one square matrix of 4,096 by 4,096 each, and an embedding."""
    tensors = {
        f"model.layers.{n}.mlp.up_proj.weight": StoredTensor("f", (4096, 4096), 2 * 4096**2)
        for n in range(2)
    }
    tensors["model.embed_tokens.weight"] = StoredTensor("f", (1000, 4096), 2 * 1000 * 4096)
    source = SourceModel(Path("m"), {"hidden_size": 4096}, tensors)
    return Job(source, SCHEMES[scheme], 128 if scheme == "awq" else None, calibration, 0)


def test_the_disk_needs_the_stored_weights_and_scales() -> None:
    """Two matrices of 4.25 or 8.25 bits a weight, 8.192 MB of embeddings, and 10 % more."""
    matrices = 2 * 4096**2
    assert estimate_needs(job("awq")).disk_bytes == int((matrices * 4.25 / 8 + 8_192_000) * 1.1)
    assert estimate_needs(job("w8a8")).disk_bytes == int((matrices * 8.25 / 8 + 8_192_000) * 1.1)


def test_memory_holds_the_model_only_where_it_must_run() -> None:
    """Rounding holds four float32 copies of one layer; calibrated schemes the whole model too."""
    rounding = estimate_needs(job("w8a8")).memory_bytes
    assert rounding == 1024**3 + 4 * 4 * 4096**2
    calibration = Calibration(((1,) * 100,), "p.jsonl", "0", 1, 100, 0)
    calibrated = estimate_needs(job("awq", calibration)).memory_bytes
    num_params = 2 * 4096**2 + 1000 * 4096
    assert calibrated == rounding + 4 * num_params + 2 * 4 * 100 * 4096


def test_a_shortage_is_reported_with_both_figures() -> None:
    needs = Needs(disk_bytes=20 * 10**9, memory_bytes=30 * 10**9)
    check_resources(needs, free_disk_bytes=20 * 10**9, available_memory_bytes=30 * 10**9)
    with pytest.raises(QuantizeError, match=r"20\.0 GB on the disk.*19\.0 GB are free"):
        check_resources(needs, free_disk_bytes=19 * 10**9, available_memory_bytes=30 * 10**9)
    with pytest.raises(QuantizeError, match=r"30\.0 GB of memory.*8\.0 GB are available"):
        check_resources(needs, free_disk_bytes=20 * 10**9, available_memory_bytes=8 * 10**9)
