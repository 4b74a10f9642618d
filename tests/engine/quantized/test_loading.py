"""vLLM loads what `paceline quantize` writes, and the engine reports the kernels in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from losslessness.engine_host import EngineHost

from paceline import demo
from paceline.quantize.run import Machine, QuantizeOptions, run_quantization

pytestmark = pytest.mark.engine


def arguments(model: Path) -> dict[str, Any]:
    return {"model": str(model), "dtype": "bfloat16", "max_model_len": 128, "max_num_seqs": 2}


def test_int8_weights_run_the_kernel_that_the_table_names(tmp_path: Path) -> None:
    out = tmp_path / "int8"
    options = QuantizeOptions(str(demo.target_path()), "w8a8", out, None, 1, 64, None, 0)
    run_quantization(
        options, Machine("", 1 << 40), command=[], cautions=[],
        on_progress=lambda *_: None, on_caution=lambda _: None,
    )  # fmt: skip
    policy = {"expected_kernels": ["CPUInt8ScaledMMLinearKernel"]}
    with EngineHost(arguments(out), policy=policy) as engine:
        [answer] = engine.generate([[5, 6, 7, 8]], temperature=0.0, max_tokens=4)
        assert len(answer["token_ids"]) == 4
        # qkv, o, gate and up, down: four layers of vLLM in each of six decoder layers
        assert "Kernels: CPUInt8ScaledMMLinearKernel" in engine.log()
        assert " in 24 layers" in engine.log()
        assert "expected CPUInt8" not in engine.log()


def test_a_quantization_that_does_nothing_does_not_start() -> None:
    model = arguments(demo.target_path())
    with pytest.raises(RuntimeError, match="all 24 linear layers are unquantized"):
        EngineHost({**model, "quantization": "int8_per_channel_weight_only"}, policy={})
