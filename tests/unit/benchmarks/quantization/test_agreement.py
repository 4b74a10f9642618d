"""What vLLM did is compared with what the gate of number formats says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quantization.agreement import GateVerdict, ask_gate, find_disagreement
from benchmarks.quantization.variants import VARIANTS
from paceline.foundation.quantized.compression import quantization_config
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.runtime.engine.launch.hardware import read_hardware

INT8 = GateVerdict(expected_kernels=("CPUInt8ScaledMMLinearKernel",))
REFUSED = GateVerdict(refusal="has no kernel for it")
PLAIN = {"UnquantizedLinearMethod": 24}


def started(kernels: dict[str, int], kv: str = "float32", modified_by: tuple[str, ...] = ()) -> Any:
    return {"kernels": kernels, "kv_cache_dtype": kv, "modified_by": list(modified_by)}


@pytest.mark.parametrize(
    ("name", "gate", "outcome"),
    [
        ("w8a8", INT8, started({"CPUInt8ScaledMMLinearKernel (oneDNN)": 24})),
        ("float32", GateVerdict(), started(PLAIN)),
        ("kv-fp8", GateVerdict(), started(PLAIN, "uint8")),
        ("nvfp4", REFUSED, {"error": "ValueError: no kernel"}),
    ],
)
def test_agreement(name: str, gate: GateVerdict, outcome: dict[str, Any]) -> None:
    assert find_disagreement(VARIANTS[name], gate, outcome) == ""


@pytest.mark.parametrize(
    ("name", "gate", "outcome", "found"),
    [
        ("w8a8", INT8, started({"Other": 24}), "expected CPUInt8ScaledMMLinearKernel"),
        ("w8a8", INT8, started(PLAIN), "24 linear layers are unquantized"),
        ("w8a8", INT8, {"error": "ValueError: bad"}, "does not run it: ValueError: bad"),
        ("w8a8", GateVerdict(), started({"Other": 24}), "names no kernel"),
        ("nvfp4", REFUSED, started({"Other": 24}), "refuses it, and vLLM runs it"),
        ("kv-fp8", GateVerdict(), started(PLAIN), "kept as float32, asked for was fp8"),
        ("float32", GateVerdict(), started(PLAIN, "uint8"), "kept as uint8"),
        ("float32", GateVerdict(), started({"Other": 1}), "the unquantized model runs Other"),
        (
            "float32",
            GateVerdict(),
            started(PLAIN, modified_by=("paceline.runtime.engine",)),
            "not stock",
        ),
    ],
)
def test_disagreement(name: str, gate: GateVerdict, outcome: dict[str, Any], found: str) -> None:
    assert found in find_disagreement(VARIANTS[name], gate, outcome)


def test_the_command_that_quantizes_must_refuse_what_serve_refuses() -> None:
    error = {"error": "ValueError: no kernel"}
    assert find_disagreement(VARIANTS["nvfp4"], REFUSED, error, "refused") == ""
    made = find_disagreement(VARIANTS["nvfp4"], REFUSED, error, "")
    assert made == "`paceline quantize` says: made; `paceline serve` says: has no kernel for it"


def test_the_gate_is_asked_as_serve_asks_it(tmp_path: Path) -> None:
    vnni = dataclasses.replace(
        read_hardware(), device="cpu", cpu_flags=frozenset({"avx512f", "avx512_vnni"}),
        vllm_release="0.32.0",
    )  # fmt: skip
    verdicts = {}
    for name in ("w8a8", "awq", "nvfp4"):
        config = {"quantization_config": quantization_config(SCHEMES[name], 64)}
        (tmp_path / "config.json").write_text(json.dumps(config))
        verdicts[name] = ask_gate(VARIANTS[name], tmp_path, vnni)
    assert verdicts["w8a8"].expected_kernels == ("CPUInt8ScaledMMLinearKernel",)
    assert verdicts["awq"].kernel_dtypes == ("bfloat16", "float16")
    assert "has no kernel for it" in verdicts["nvfp4"].refusal
