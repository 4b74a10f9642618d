"""An engine whose quantization has no effect does not start."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.scheduler.kernel_check import (
    check_kernels,
    is_quantization_stored,
    why_unexpected,
)

PLAIN = {"UnquantizedLinearMethod": 24}
INT8 = {"CPUInt8ScaledMMLinearKernel (oneDNN)": 24}


class Workers:
    """Workers that answer with the kernels of their own layers."""

    def __init__(self, *answers: dict[str, int] | Exception) -> None:
        self.answers = answers

    def collective_rpc(self, method: Any) -> list[Any]:
        for answer in self.answers:
            if isinstance(answer, Exception):
                raise answer
        return list(self.answers)


def test_a_quantization_without_effect_is_refused() -> None:
    with pytest.raises(ValueError, match="all 24 linear layers are unquantized"):
        check_kernels(Workers(PLAIN), "int8_per_channel_weight_only", ())


def test_a_checkpoint_that_quantizes_its_kv_cache_only_is_served_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such as compressed-tensors with a kv_cache_scheme and no weight groups."""
    with caplog.at_level(logging.WARNING, "vllm.paceline.scheduler"):
        assert check_kernels(Workers(PLAIN), "compressed-tensors", (), is_stored=True) == PLAIN
    (message,) = caplog.messages
    assert "applies to no weights" in message


@pytest.mark.parametrize("stored", [None, {"quant_method": "compressed-tensors"}])
def test_a_stored_quantization_differs_from_one_made_in_loading(stored: Any) -> None:
    architecture = SimpleNamespace(quantization_config=stored)
    config = SimpleNamespace(model_config=SimpleNamespace(model_arch_config=architecture))
    assert is_quantization_stored(config) == (stored is not None)


@pytest.mark.parametrize("quantization", [None, "compressed-tensors"])
def test_layers_of_all_workers_are_added(
    quantization: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = PLAIN if quantization is None else INT8
    with caplog.at_level(logging.INFO, "vllm.paceline.scheduler"):
        found = check_kernels(Workers(kernels, kernels), quantization, ())
    assert sum(found.values()) == 48
    assert f"Kernels: {next(iter(kernels))} in 48 layers" in caplog.messages


def test_some_unquantized_layers_are_no_fault() -> None:
    assert check_kernels(Workers(PLAIN | INT8), "compressed-tensors", ()) == PLAIN | INT8


def test_an_unexpected_kernel_is_a_warning() -> None:
    assert why_unexpected(INT8, ("CPUInt8ScaledMMLinearKernel",)) == ""
    assert why_unexpected(INT8, ()) == ""
    assert "expected CPUWNA16LinearKernel" in why_unexpected(INT8, ("CPUWNA16LinearKernel",))


@pytest.mark.parametrize("workers", [None, Workers(RuntimeError("gone")), Workers()])
def test_kernels_that_cannot_be_read_do_not_stop_the_engine(workers: Any) -> None:
    assert check_kernels(workers, "compressed-tensors", ("CPUWNA16LinearKernel",)) == {}
