"""Scales and grid points of matrices whose results are known."""

from __future__ import annotations

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import SCHEMES

W8A8, AWQ, FP8 = SCHEMES["w8a8"], SCHEMES["awq"], SCHEMES["fp8"]


def test_int8_has_one_scale_per_output() -> None:
    """The largest weights 127 and 2.54 become 127 steps; 0.03 is rounded to 2 steps of 0.02."""
    weight = torch.tensor([[127.0, -63.6, 0.4], [2.54, -0.03, 0.0]])
    scales = choose_scales(weight, W8A8, None)
    assert torch.allclose(scales, torch.tensor([[1.0], [0.02]]))
    expected = torch.tensor([[127.0, -64.0, 0.0], [2.54, -0.04, 0.0]])
    assert torch.allclose(fake_quantize(weight, scales, W8A8, None), expected, atol=1e-6)


def test_four_bits_have_one_scale_per_group() -> None:
    """Groups of two; each is exactly on a grid with 7 steps to its maximum."""
    weight = torch.tensor([[7.0, -3.0, 0.7, 0.2]])
    scales = choose_scales(weight, AWQ, 2)
    assert torch.allclose(scales, torch.tensor([[1.0, 0.1]]))
    assert torch.allclose(fake_quantize(weight, scales, AWQ, 2), weight, atol=1e-6)


def test_a_single_large_weight_is_clipped_if_the_others_gain() -> None:
    """127 weights of 0.8 and one of 7. Squared errors of the scales that are tried: 5.08 at 1.0
    (0.8 becomes 1.0), 1.76 at 0.9, 1.42 at 0.85 (0.05 each, and 1.05 of the large one), 1.96 at
    0.8."""
    weight = torch.full((1, 128), 0.8)
    weight[0, 0] = 7.0
    scales = choose_scales(weight, AWQ, 128)
    assert torch.allclose(scales, torch.tensor([[0.85]]))
    whole = fake_quantize(weight, torch.tensor([[1.0]]), AWQ, 128)
    clipped = fake_quantize(weight, scales, AWQ, 128)
    assert (clipped - weight).square().sum() < (whole - weight).square().sum()


def test_zeros_stay_zeros_in_every_scheme() -> None:
    """Layers of zeros widen a model without changing it; a scale of 0 would make them NaN."""
    weight = torch.zeros(2, 128)
    for scheme, group_size in ((W8A8, None), (AWQ, 64), (FP8, None)):
        scales = choose_scales(weight, scheme, group_size)
        assert bool((scales > 0).all())
        assert torch.equal(fake_quantize(weight, scales, scheme, group_size), weight)


def test_scales_are_rounded_to_the_format_in_which_they_are_stored() -> None:
    weight = torch.randn(8, 128, generator=torch.Generator().manual_seed(0))
    scales = choose_scales(weight, AWQ, 32, torch.bfloat16)
    assert torch.equal(scales, scales.bfloat16().float())


def test_fp8_uses_its_largest_number() -> None:
    weight = torch.tensor([[448.0, 1.0], [0.448, 0.0]])
    scales = choose_scales(weight, FP8, None)
    assert torch.allclose(scales, torch.tensor([[1.0], [0.001]]))
    assert torch.allclose(fake_quantize(weight, scales, FP8, None), weight)
