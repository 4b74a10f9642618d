"""Correcting later inputs for the errors of earlier ones lowers the error of the outputs."""

from __future__ import annotations

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quantize.own.gptq import SecondMoments, round_with_correction

GPTQ = SCHEMES["gptq"]


def correlated_rows(num_inputs: int) -> torch.Tensor:
    """Inputs (512, num_inputs) that share eight directions, as activations do."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(512, 8, generator=generator) @ torch.randn(
        8, num_inputs, generator=generator
    )
    return shared + 0.1 * torch.randn(512, num_inputs, generator=generator)


def moments_of(rows: torch.Tensor) -> torch.Tensor:
    moments = SecondMoments()
    moments.add(rows[:100])
    moments.add(rows[100:])
    return moments.mean


def test_second_moments_are_those_of_all_rows() -> None:
    rows = correlated_rows(16)
    assert torch.allclose(moments_of(rows), rows.T @ rows / 512, rtol=1e-4)


def test_the_output_error_is_less_than_that_of_plain_rounding() -> None:
    rows = correlated_rows(192)  # two blocks of corrections
    weight = torch.randn(32, 192, generator=torch.Generator().manual_seed(1))
    rounded, scales = round_with_correction(weight, moments_of(rows), GPTQ, 32, torch.bfloat16)
    plain = fake_quantize(weight, choose_scales(weight, GPTQ, 32), GPTQ, 32)

    def error(other: torch.Tensor) -> float:
        return (rows @ (other - weight).T).square().mean().item()

    assert error(rounded) < 0.3 * error(plain)
    on_grid = fake_quantize(rounded, scales, GPTQ, 32)
    assert torch.allclose(on_grid, rounded, atol=1e-6)
    assert torch.equal(scales, scales.bfloat16().float())


def test_inputs_that_are_never_active_are_rounded_plainly() -> None:
    rows = correlated_rows(64)
    rows[:, 32:] = 0
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    rounded, _ = round_with_correction(weight, moments_of(rows), GPTQ, 32, torch.float32)
    plain = fake_quantize(weight, choose_scales(weight, GPTQ, 32), GPTQ, 32)
    assert torch.allclose(rounded[:, 32:], plain[:, 32:])
