"""The format of a model is read from its configuration."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.compatibility.stored_formats import stored_format


def compressed(bits: int, kind: str, strategy: str, input_bits: int | None) -> dict[str, Any]:
    """A configuration of compressed-tensors with one group."""
    inputs = None if input_bits is None else {"num_bits": input_bits, "type": kind}
    weights = {"num_bits": bits, "type": kind, "strategy": strategy}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (compressed(4, "int", "group", None), "w4a16"),
        (compressed(4, "int", "group", 8), "w4a8-int8"),
        (compressed(8, "int", "channel", None), "w8a16"),
        (compressed(8, "int", "channel", 8), "w8a8-int8"),
        (compressed(8, "float", "channel", 8), "fp8-channel"),
        (compressed(8, "float", "block", 8), "fp8-block"),
        (compressed(4, "float", "tensor_group", 4), "nvfp4"),
        (compressed(3, "int", "group", None), "unknown"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "gptq", "bits": 8}, "w8a16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fp8"}, "fp8-tensor"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "something"}, "unknown"),
        ("broken", "unknown"),
        (None, "none"),
    ],
)
def test_the_format_of_a_configuration(quantization: Any, expected: str) -> None:
    assert stored_format({"quantization_config": quantization}) == expected
    if isinstance(quantization, dict):
        assert stored_format({"text_config": {"quantization_config": quantization}}) == expected


def test_layers_of_different_formats_are_unknown() -> None:
    quantization = compressed(4, "int", "group", None)
    quantization["config_groups"]["group_1"] = {
        "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
        "input_activations": {"num_bits": 8},
    }
    assert stored_format({"quantization_config": quantization}) == "unknown"
