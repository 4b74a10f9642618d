"""Bytes of weights with exceptions by module and in 4-bit floats, and scaled contexts.

The model has two layers of 64 by 96 and 64 by 64 attention and three matrices of 64 by 160.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from paceline.foundation.capacity.model.hf_config import UnknownModelError, read_model_config
from paceline.foundation.capacity.model.quantized_config import read_weight_format
from paceline.foundation.capacity.model.weights import weight_bytes
from unit.capacity.model.configs import LLAMA

ATTENTION = 64 * 96 + 64 * 64
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 64}


def attention_bytes(quantization: dict[str, Any]) -> int:
    """Of both layers."""
    config = LLAMA | {"quantization_config": quantization}
    return weight_bytes(read_model_config(config), read_weight_format(config, "bfloat16")).attention


def gptq(bits: int) -> int:
    """One layer's attention: one group of 64 inputs, scales of 2 bytes, packed zero points."""
    return ATTENTION * bits // 8 + (96 + 64) * 2 + (96 + 64) * bits // 8


@pytest.mark.parametrize(
    ("dynamic", "expected"),
    [
        ({}, 2 * gptq(4)),
        ({"-:.*self_attn.*": {}}, 2 * 2 * ATTENTION),
        ({"+:.*": {"bits": 8}}, 2 * gptq(8)),
        ({r"+:model\.layers\.1\..*": {"bits": 8}}, gptq(4) + gptq(8)),
        ({r".*layers\.0\..*": {"bits": 8}}, gptq(4) + gptq(8)),
        ({r"-:.*layers\.0\..*": {}, "+:.*": {"bits": 8}}, 2 * ATTENTION + gptq(8)),
        ({"+:.*": {"group_size": 32}}, 2 * (gptq(4) + (96 + 64) * 2 + (96 + 64) // 2)),
    ],
)
def test_gptq_has_exceptions_by_module(dynamic: dict[str, Any], expected: int) -> None:
    assert attention_bytes({**GPTQ, "dynamic": dynamic}) == expected


def group(**weights: Any) -> dict[str, Any]:
    return {"targets": ["Linear"], "weights": weights}


NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel"}
NVFP4_BYTES = ATTENTION // 2 + ATTENTION // 16
"""Of one layer, without the scales of whole matrices: query, key, value and output."""


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"a": group(**NVFP4)}, 2 * (NVFP4_BYTES + 4 * 4)),
        ({"a": {**group(**NVFP4), "input_activations": NVFP4}}, 2 * (NVFP4_BYTES + 4 * 8)),
        (
            {"a": group(num_bits=4, type="float", strategy="group", group_size=32)},
            2 * (ATTENTION // 2 + ATTENTION // 32),
        ),
        (
            {"a": group(num_bits=8, type="float", strategy="block", block_structure=[64, 64])},
            2 * (ATTENTION + (2 + 1) * 4),
        ),
        (
            {"a": group(**INT8), "b": {"targets": ["re:.*self_attn.*"], "weights": NVFP4}},
            2 * (NVFP4_BYTES + 4 * 4),
        ),
        ({"a": {"targets": ["re:.*mlp.*"], "weights": INT8}}, 2 * 2 * ATTENTION),
        ({"a": group(**INT8), "kv": {"targets": ["re:.*attn"]}}, 2 * (ATTENTION + (96 + 64) * 4)),
    ],
    ids=[
        "NVFP4", "NVFP4 with inputs", "MXFP4", "FP8 by block", "two groups",
        "the feed-forward network alone", "a group without weights",
    ],
)  # fmt: skip
def test_compressed_tensors_have_groups(groups: dict[str, Any], expected: int) -> None:
    quantization = {"quant_method": "compressed-tensors", "config_groups": groups}
    assert attention_bytes(quantization) == expected


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("FP8", 2 * (ATTENTION + 4 * 4)),
        ("FP8_PER_CHANNEL_PER_TOKEN", 2 * (ATTENTION + (96 + 64) * 4)),
        ("NVFP4", 2 * (NVFP4_BYTES + 4 * 8)),
        ("W4A16_NVFP4", 2 * (NVFP4_BYTES + 4 * 4)),
        ("MXFP8", 2 * (ATTENTION + ATTENTION // 32)),
    ],
)
def test_modelopt_names_its_algorithm(algorithm: str, expected: int) -> None:
    assert attention_bytes({"quant_method": "modelopt", "quant_algo": algorithm}) == expected


@pytest.mark.parametrize(
    ("method", "field"),
    [
        ("fp8", "ignored_layers"),
        ("fp8", "modules_to_not_convert"),
        ("awq", "modules_to_not_convert"),
    ],
)
def test_every_method_has_its_field_for_what_it_leaves_out(method: str, field: str) -> None:
    left_out = {"quant_method": method, "group_size": 64, field: ["self_attn"]}
    assert attention_bytes(left_out) == 2 * 2 * ATTENTION


def test_modelopt_leaves_out_by_wildcards() -> None:
    ignored = ["model.layers.0.*", "lm_head"]
    quantization = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ignored}
    assert attention_bytes(quantization) == 2 * ATTENTION + ATTENTION + 4 * 4


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ({**GPTQ, "bits": "4"}, "has '4' bits; known: 2, 3, 4, 8"),
        ({**GPTQ, "bits": 5}, "has 5 bits"),
        ({**GPTQ, "group_size": 0}, "group_size of quantized weights is 0"),
        ({**GPTQ, "dynamic": {"-:(": {}}}, "no regular expression"),
        ({**GPTQ, "dynamic": [1]}, "dynamic in quantization_config is a list"),
        ({**GPTQ, "dynamic": {"+:.*": 8}}, "a value of another type"),
        ({"quant_method": "fp8", "ignored_layers": 3}, "a value of another type"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "a value of another type"),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, "a value of another type"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "have no weights"),
    ],
)
def test_settings_that_no_tool_writes_are_refused(
    quantization: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_weight_format({"quantization_config": quantization}, "bfloat16")


def test_a_mixture_by_modelopt_is_refused() -> None:
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
    with pytest.raises(ValueError, match=r"MIXED_PRECISION; known: FP8"):
        read_weight_format({"quantization_config": quantization}, "bfloat16")


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"type": "linear", "factor": 2.0}, 8192),
        ({"rope_type": "dynamic", "factor": 4}, 16_384),
        ({"rope_type": "ntk", "factor": 2.0}, 8192),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
        ({"rope_type": "longrope", "factor": 32.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "linear", "factor": None}, 4096),
        ({"rope_type": "mrope", "mrope_section": [16, 24]}, 4096),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}}, 8192),
    ],
)
def test_the_context_is_that_which_vllm_derives(scaling: dict[str, Any], context: int) -> None:
    config = LLAMA | {"max_position_embeddings": 4096, "rope_scaling": scaling}
    assert read_model_config(config).max_context_tokens == context


@pytest.mark.parametrize("scaling", ["linear", {"rope_type": "linear", "factor": -1}])
def test_a_scaling_that_is_none_is_refused(scaling: object) -> None:
    with pytest.raises(UnknownModelError, match=r"in config\.json is"):
        read_model_config(LLAMA | {"rope_scaling": scaling})
