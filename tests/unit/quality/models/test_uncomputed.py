"""What is stored and not computed in process is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from paceline.foundation.quantized.compression import quantization_config
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quality.models.uncomputed import find_setting, find_tensor


def settings(scheme: str, group_size: int | None = None, **changes: Any) -> dict[str, Any]:
    """What `paceline quantize` stores, with changes such as `weights__symmetric`."""
    found = copy.deepcopy(quantization_config(SCHEMES[scheme], group_size))
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = found["config_groups"]["group_0"] if parents else found
        for parent in parents:
            at = at[parent]
        at[last] = value
    return found


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_everything_that_paceline_stores_is_computed(scheme: str) -> None:
    stored = settings(scheme, 32 if SCHEMES[scheme].has_groups else None)
    assert find_setting(stored, SCHEMES[scheme].format) == ""


@pytest.mark.parametrize(
    ("scheme", "changes", "message"),
    [
        ("gptq", {"weights__symmetric": False}, "zero points"),
        ("gptq", {"weights__actorder": "group"}, "reordered columns (actorder group)"),
        ("gptq", {"weights__strategy": "tensor"}, "scales of weights by tensor"),
        ("w8a8", {"input_activations__dynamic": False}, "inputs other than 8 bits with a dynamic"),
        ("w8a8", {"input_activations__strategy": "tensor"}, "inputs other than"),
        ("w8a8", {"input_activations__symmetric": False}, "zero points of inputs"),
        ("fp8", {"kv_cache_scheme": {"num_bits": 8}}, "a quantized KV cache"),
    ],
)
def test_other_settings_are_named(scheme: str, changes: dict[str, Any], message: str) -> None:
    stored = settings(scheme, 32 if scheme == "gptq" else None, **changes)
    assert message in find_setting(stored, SCHEMES[scheme].format)


def test_inputs_belong_to_the_format() -> None:
    """NVFP4 with FP4 inputs, and FP8 weights with 16-bit inputs, have the names of others."""
    group = settings("nvfp4")
    group["config_groups"]["group_0"]["input_activations"] = {"num_bits": 4}
    assert find_setting(group, "nvfp4") == "quantized inputs (input_activations)"
    group = settings("fp8")
    group["config_groups"]["group_0"]["input_activations"] = None
    assert find_setting(group, "fp8-channel") == "inputs of 16 bits (no input_activations)"


def test_static_reordering_stores_columns_in_their_own_order() -> None:
    assert find_setting(settings("gptq", 32, weights__actorder="static"), "w4a16") == ""


def test_groups_of_different_sizes_are_named() -> None:
    found = settings("gptq", 32)
    found["config_groups"]["group_1"] = settings("gptq", 64)["config_groups"]["group_0"]
    assert find_setting(found, "w4a16") == "several group sizes"


@pytest.mark.parametrize("part", ["weight_g_idx", "input_scale", "weight_zero_point"])
def test_parts_of_a_quantized_matrix_that_are_not_read_are_named(part: str) -> None:
    names = ["up.weight", "up.weight_scale", "up.bias", f"up.{part}", f"other.{part}"]
    assert find_tensor(names, {"up"}) == f"up.{part}"
    assert find_tensor(names[:3], {"up"}) == ""


def test_scales_of_the_kv_cache_are_named_also_without_quantized_matrices() -> None:
    names = ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_scale"]
    assert find_tensor(names, frozenset()) == names[1]
