"""Which engines are compared, and which of them fit into memory together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.quantization.variants import (
    VARIANTS,
    choose_dtype,
    engine_arguments,
    plan_batches,
    speculating,
    with_baselines,
)
from paceline.runtime.engine.launch.hardware import Hardware, read_hardware


def cpu(*flags: str) -> Hardware:
    return dataclasses.replace(
        read_hardware(), device="cpu", cpu_flags=frozenset(flags), cpu_ids=(0, 1), cpu_quota=None
    )


def test_the_unquantized_model_is_there_in_both_formats_and_as_control() -> None:
    names = [variant.name for variant in with_baselines(["w8a8", "float32", "awq"])]
    assert names == ["float32", "bfloat16", "control", "w8a8", "awq"]


@pytest.mark.parametrize(
    ("name", "kernel_dtypes", "flags", "dtype"),
    [
        ("w8a8", (), ("avx512_vnni",), "float32"),
        ("control", (), ("avx512_vnni",), "float32"),
        ("control", (), ("avx512_bf16",), "bfloat16"),
        ("awq", ("bfloat16", "float16"), ("avx512_vnni",), "bfloat16"),
        ("w8a8-bfloat16", (), ("avx512_vnni",), "bfloat16"),
    ],
)
def test_a_variant_is_served_in_the_format_that_serve_chooses(
    name: str, kernel_dtypes: tuple[str, ...], flags: tuple[str, ...], dtype: str
) -> None:
    assert choose_dtype(VARIANTS[name], kernel_dtypes, cpu(*flags)) == dtype


def test_drafts_and_the_cache_format_reach_the_engine() -> None:
    variants = {one.name: one for one in speculating("float32", "kv-fp8", ("ngram", "draft_model"))}
    found = {
        name: engine_arguments(variant, Path("m"), "float32", Path("d"), 4, compiles=False)
        for name, variant in variants.items()
    }
    assert "speculative_config" not in found["kv-fp8"]
    assert found["kv-fp8+ngram"]["kv_cache_dtype"] == "fp8"
    assert found["kv-fp8+ngram"]["speculative_config"]["method"] == "ngram"
    assert found["float32+draft_model"]["speculative_config"] == {
        "num_speculative_tokens": 4, "method": "draft_model", "model": "d"
    }  # fmt: skip
    assert variants["kv-fp8+ngram"].loaded_as == "kv-fp8"


@pytest.mark.parametrize("compiles", [False, True])
def test_the_model_is_eager_unless_it_is_to_be_compiled(compiles: bool) -> None:
    found = engine_arguments(
        VARIANTS["w8a8"], Path("m"), "float32", Path("d"), 4, compiles=compiles
    )
    assert found["enforce_eager"] != compiles


def test_the_control_has_the_format_of_the_baseline() -> None:
    assert [one.dtype for one in speculating("bfloat16", "w8a8", ()) if one.name == "control"] == [
        "bfloat16"
    ]


def test_engines_that_do_not_fit_together_come_in_batches_with_the_baseline() -> None:
    sizes = {"base": 4, "control": 4, "a": 3, "b": 3, "c": 9}
    names = ["base", "control", "a", "b", "c"]
    always = ("base", "control")
    assert plan_batches(names, always, sizes, 23) == [names]
    assert plan_batches(names, always, sizes, 14) == [
        ["base", "control", "a", "b"],
        ["base", "control", "c"],
    ]
    assert plan_batches(["base"], always, sizes, 14) == [["base"]]


def test_an_engine_of_unknown_size_counts_as_the_largest() -> None:
    assert plan_batches(["base", "a", "new"], ["base"], {"base": 2, "a": 5}, 11) == [
        ["base", "a"],
        ["base", "new"],
    ]
