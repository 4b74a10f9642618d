"""The gate refuses what a vLLM release cannot run, and says what to use instead."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.hardware_classes import (
    DESCRIPTIONS,
    HARDWARE_CLASSES,
    HardwareClass,
    class_of_cpu,
    class_of_gpu,
)
from paceline.foundation.compatibility.number_formats import (
    Evidence,
    FormatRow,
    format_rows,
    judge_format,
)


def test_every_cell_of_the_table_has_one_row() -> None:
    cells = [
        (row.kind, name, hardware, release)
        for row in format_rows()
        for name in row.formats
        for hardware in row.hardware
        for release in row.releases
    ]
    assert len(cells) == len(set(cells))


def test_every_row_has_evidence_of_a_release_that_it_covers() -> None:
    for row in format_rows():
        assert row.evidence.what
        assert row.evidence.outcome
        assert row.evidence.basis in ("tried", "source")
        assert ".".join(row.evidence.vllm.split(".")[:2]) in row.releases


def test_a_refusal_without_an_alternative_is_no_row() -> None:
    with pytest.raises(ValueError, match="what to use instead"):
        FormatRow(
            kind="weights",
            formats=("w8a16",),
            hardware=("cpu-amx",),
            releases=("0.32",),
            status="fails",
            reason="has no kernel",
            evidence=Evidence("tried", "0.32.0", "x", "y"),
        )


@pytest.mark.parametrize(
    ("name", "hardware"),
    [
        ("w8a16", "cpu-avx512-vnni"),
        ("fp8-block", "cpu-avx512-vnni"),
        ("nvfp4", "cpu-amx"),
        ("online-int8_per_channel_weight_only", "cpu-amx"),
        ("online-int8_per_channel_weight_only", "gpu-hopper"),
        ("w8a8-int8", "gpu-blackwell"),
    ],
)
def test_formats_that_fail_or_do_nothing_are_refused(name: str, hardware: HardwareClass) -> None:
    verdict = judge_format("weights", name, hardware, "0.32.0", has_experts=False)
    assert name in verdict.refusal
    assert DESCRIPTIONS[hardware] in verdict.refusal
    assert "instead" in verdict.refusal


def test_four_bit_weights_on_a_cpu_are_served_in_16_bits_only() -> None:
    refused = judge_format("weights", "w4a16", "cpu-avx512-vnni", "0.32.0", "float32")
    assert "bfloat16 and float16 only" in refused.refusal
    for dtype in ("bfloat16", "float16", "auto", None):
        assert not judge_format("weights", "w4a16", "cpu-avx512-vnni", "0.32.0", dtype).refusal


def test_int8_with_amx_is_served_in_16_bits_only() -> None:
    assert judge_format("weights", "w8a8-int8", "cpu-amx", "0.32.0", "float32").refusal
    assert not judge_format("weights", "w8a8-int8", "cpu-amx", "0.32.0", "bfloat16").refusal


def test_int8_without_amx_is_served_in_any_dtype() -> None:
    for dtype in ("bfloat16", "float32"):
        verdict = judge_format("weights", "w8a8-int8", "cpu-avx512-vnni", "0.32.0", dtype)
        assert (verdict.refusal, verdict.caution) == ("", "")
        assert verdict.row is not None
        assert verdict.row.kernels == ("CPUInt8ScaledMMLinearKernel",)


def test_a_slow_format_is_served_with_a_caution() -> None:
    verdict = judge_format("weights", "fp8-channel", "cpu-avx512-vnni", "0.32.0")
    assert not verdict.refusal
    assert "slower" in verdict.caution


@pytest.mark.parametrize("hardware", [name for name in HARDWARE_CLASSES if name[:3] == "cpu"])
def test_the_kv_cache_format_with_other_tokens_is_refused_on_cpus(hardware: HardwareClass) -> None:
    assert (
        "other tokens"
        in judge_format("kv_cache", "int8_per_token_head", hardware, "0.32.0").refusal
    )


def test_the_kv_cache_may_be_fp8_where_the_cpu_has_avx512() -> None:
    assert not judge_format("kv_cache", "fp8", "cpu-avx512-vnni", "0.32.0").refusal
    assert judge_format("kv_cache", "fp8", "cpu-other", "0.32.0").refusal


def test_avx512_without_vnni_serves_4_bit_weights_and_an_fp8_kv_cache_without_caution() -> None:
    hardware = class_of_cpu({"avx2", "avx512f"})
    for verdict in (
        judge_format("kv_cache", "fp8", hardware, "0.32.0"),
        judge_format("weights", "w4a16", hardware, "0.32.0"),
    ):
        assert (verdict.refusal, verdict.caution) == ("", "")
        assert verdict.row is not None
    assert "without VNNI" in judge_format("weights", "w8a8-int8", hardware, "0.32.0").caution


@pytest.mark.parametrize("has_experts", [True, None])
def test_what_does_nothing_on_dense_models_is_a_caution_for_others(
    has_experts: bool | None,
) -> None:
    verdict = judge_format(
        "weights", "online-nvfp4_per_token", "gpu-blackwell", "0.32.0", has_experts=has_experts
    )
    assert not verdict.refusal
    assert "quantizes only the experts" in verdict.caution


@pytest.mark.parametrize("release", ["0.33.0", "1.0"])
def test_what_nobody_tried_is_served_with_a_caution(release: str) -> None:
    verdict = judge_format("weights", "w8a16", "cpu-amx", release)
    assert not verdict.refusal
    assert "nobody has tried" in verdict.caution


def test_an_unquantized_model_is_not_judged() -> None:
    verdict = judge_format("weights", "none", "cpu-amx", "0.32.0", "float32")
    assert (verdict.row, verdict.refusal, verdict.caution) == (None, "", "")


def test_processors_are_classed_by_what_multiplies_int8() -> None:
    assert class_of_cpu({"avx512f", "avx512_vnni", "amx_tile"}) == "cpu-amx"
    assert class_of_cpu({"avx512f", "avx512_vnni"}) == "cpu-avx512-vnni"
    assert class_of_cpu({"avx512f"}) == "cpu-avx512"
    assert class_of_cpu({"avx2"}) == "cpu-other"


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((7, 0), "gpu-volta"),
        ((7, 5), "gpu-turing"),
        ((8, 6), "gpu-ampere"),
        ((8, 9), "gpu-ada"),
        ((9, 0), "gpu-hopper"),
        ((10, 0), "gpu-blackwell"),
        ((12, 1), "gpu-blackwell"),
        ((13, 0), "gpu-other"),
        ((6, 1), "gpu-other"),
        (None, "gpu-other"),
    ],
)
def test_gpus_are_classed_by_compute_capability(
    capability: tuple[int, int] | None, expected: str
) -> None:
    assert class_of_gpu(capability) == expected
