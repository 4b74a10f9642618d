"""vLLM loads what `paceline quantize` writes with the kernel that the gate of formats names.

A format that the gate refuses is one that vLLM refuses too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from losslessness.engine_host import EngineHost

from paceline import demo
from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.format_gate import ServedFormats, choose_formats
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization

pytestmark = pytest.mark.engine


def quantize(scheme: str, folder: Path) -> Path:
    """The bundled target in a scheme; a few short samples calibrate it."""
    out = folder / scheme
    options = QuantizeOptions(str(demo.target_path()), scheme, out, None, 4, 64, None, 0)
    run_quantization(
        options, Machine("", 1 << 40), command=[], cautions=[],
        on_progress=lambda *_: None, on_caution=lambda _: None,
    )  # fmt: skip
    return out


def ask_gate(model: Path) -> ServedFormats:
    return choose_formats(
        read_hardware(), target=str(model), draft=None, dtype="auto", kv_cache_dtype="auto",
        vllm_args=(),
    )  # fmt: skip


def arguments(model: Path, dtype: str = "bfloat16") -> dict[str, Any]:
    return {"model": str(model), "dtype": dtype, "max_model_len": 128, "max_num_seqs": 2}


@pytest.mark.parametrize(
    "scheme",
    [
        "w8a8",
        "fp8",
        pytest.param("awq", marks=pytest.mark.slow),  # the calibration takes half a minute
        pytest.param("gptq", marks=pytest.mark.slow),
    ],
)
def test_a_scheme_runs_the_kernel_that_the_table_names(scheme: str, tmp_path: Path) -> None:
    out = quantize(scheme, tmp_path)
    formats = ask_gate(out)
    dtype, _ = choose_cpu_dtype(read_hardware().cpu_flags, formats.kernel_dtypes)
    policy = {"expected_kernels": list(formats.expected_kernels)}
    with EngineHost(arguments(out, dtype), policy=policy) as engine:
        [answer] = engine.generate([[5, 6, 7, 8]], temperature=0.0, max_tokens=4)
        assert len(answer["token_ids"]) == 4
        found = re.findall(r"Kernels: (\w+)(?: \(\w+\))? in (\d+) layers", engine.log())
        # qkv, o, gate and up, down: four layers of vLLM in each of six decoder layers
        assert found == [(found[0][0], "24")]
        assert found[0][0] in formats.expected_kernels
        assert "the linear layers run" not in engine.log()  # the warning of another kernel


def test_a_scheme_that_the_gate_refuses_is_refused_by_vllm(tmp_path: Path) -> None:
    out = quantize("nvfp4", tmp_path)
    with pytest.raises(ModelUnfit, match="has no kernel for it"):
        ask_gate(out)
    with pytest.raises(RuntimeError, match=r"NVFP4|NvFp4|Fp4|fp4"):
        EngineHost(arguments(out), plugins="")


def test_an_fp8_cache_holds_twice_the_tokens() -> None:
    """Or it is refused, with the reason that the table has, on a processor without AVX-512."""
    hardware = read_hardware()
    if hardware.hardware_classes == ("cpu-other",):
        with pytest.raises(RuntimeError, match="FP8 KV cache on CPU requires"):
            EngineHost({**arguments(demo.target_path()), "kv_cache_dtype": "fp8"}, plugins="")
        return
    tokens = {}
    for format_ in ("auto", "fp8"):
        given = {**arguments(demo.target_path()), "kv_cache_dtype": format_}
        with EngineHost(given, plugins="") as engine:
            [answer] = engine.generate([[5, 6, 7, 8]], temperature=0.0, max_tokens=4)
            assert len(answer["token_ids"]) == 4
            [found] = re.findall(r"KV cache size: ([\d,]+) tokens", engine.log())
            tokens[format_] = int(found.replace(",", ""))
    assert tokens["fp8"] == pytest.approx(2 * tokens["auto"], rel=0.01)


def test_a_quantization_that_does_nothing_does_not_start() -> None:
    model = arguments(demo.target_path())
    with pytest.raises(RuntimeError, match="all 24 linear layers are unquantized"):
        EngineHost({**model, "quantization": "int8_per_channel_weight_only"}, policy={})
