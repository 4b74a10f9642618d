"""Kernels other than the expected ones, and none where there should be."""

from __future__ import annotations

from paceline.foundation.compatibility.kernels import why_unexpected, why_without_effect

PLAIN = {"UnquantizedLinearMethod": 24}
INT8 = {"CPUInt8ScaledMMLinearKernel (oneDNN)": 24}


def test_an_unexpected_kernel_is_a_warning() -> None:
    assert why_unexpected(INT8, ("CPUInt8ScaledMMLinearKernel",)) == ""
    assert why_unexpected(INT8, ()) == ""
    assert "expected CPUWNA16LinearKernel" in why_unexpected(INT8, ("CPUWNA16LinearKernel",))


def test_a_quantization_has_an_effect_if_any_layer_has_a_kernel_of_it() -> None:
    assert why_without_effect(PLAIN | INT8, "compressed-tensors", is_stored=True) == ""
    assert why_without_effect(PLAIN, None, is_stored=False) == ""
    found = why_without_effect(PLAIN, "int8", is_stored=False)
    assert "all 24 linear layers are unquantized (UnquantizedLinearMethod in 24 layers)" in found
    assert "Remove --quantization" in found
