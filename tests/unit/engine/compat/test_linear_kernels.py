"""Which kernel computes each layer; an engine whose quantization has no effect does not start."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.compat.linear_kernels import check_kernels, read_kernels


class UnquantizedLinearMethod:
    pass


class UnquantizedEmbeddingMethod:
    pass


class CompressedTensorsLinearMethod:
    pass


class AutoAWQMarlinLinearMethod:
    def __init__(self, kernel: object) -> None:
        self.kernel = kernel


class CPUWNA16LinearKernel:
    pass


class CPUInt8ScaledMMLinearKernel:
    def __init__(self) -> None:
        self.linear_method = self._apply_weights_onednn

    def _apply_weights_onednn(self) -> None:
        """Stands for the oneDNN path."""


def layer(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def model(*layers: Any) -> Any:
    return SimpleNamespace(modules=lambda: iter(layers))


def worker(*layers: Any) -> Any:
    return SimpleNamespace(model_runner=SimpleNamespace(get_model=lambda: model(*layers)))


def test_layers_are_counted_by_kernel_and_variant() -> None:
    int8 = layer(
        quant_method=CompressedTensorsLinearMethod(),
        scheme=SimpleNamespace(strategy="channel", kernel=CPUInt8ScaledMMLinearKernel()),
    )
    awq = layer(quant_method=AutoAWQMarlinLinearMethod(CPUWNA16LinearKernel()), use_w4a8=True)
    plain = layer(quant_method=UnquantizedLinearMethod())
    embedding = layer(quant_method=UnquantizedEmbeddingMethod())
    assert read_kernels(worker(layer(), int8, int8, awq, plain, embedding)) == {
        "CPUInt8ScaledMMLinearKernel (oneDNN)": 2,
        "CPUWNA16LinearKernel (W4A8)": 1,
        "UnquantizedLinearMethod": 1,
    }


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


def config(quantization: str | None, *, is_stored: bool = False) -> Any:
    """vLLM's configuration of a model, whose own one names the quantization if `is_stored`."""
    stored = {"quant_method": quantization} if is_stored else None
    architecture = SimpleNamespace(quantization_config=stored)
    model_config = SimpleNamespace(quantization=quantization, model_arch_config=architecture)
    return SimpleNamespace(model_config=model_config)


def test_a_quantization_without_effect_is_refused() -> None:
    with pytest.raises(ValueError, match="all 24 linear layers are unquantized"):
        check_kernels(Workers(PLAIN), config("int8_per_channel_weight_only"), ())


def test_a_checkpoint_that_quantizes_its_kv_cache_only_is_served_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such as compressed-tensors with a kv_cache_scheme and no weight groups."""
    with caplog.at_level(logging.WARNING, "vllm.paceline.scheduler"):
        stored = config("compressed-tensors", is_stored=True)
        assert check_kernels(Workers(PLAIN), stored, ()) == PLAIN
    (message,) = caplog.messages
    assert "applies to no weights" in message


@pytest.mark.parametrize("quantization", [None, "compressed-tensors"])
def test_layers_of_all_workers_are_added(
    quantization: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = PLAIN if quantization is None else INT8
    with caplog.at_level(logging.INFO, "vllm.paceline.scheduler"):
        found = check_kernels(Workers(kernels, kernels), config(quantization), ())
    assert sum(found.values()) == 48
    assert f"Kernels: {next(iter(kernels))} in 48 layers" in caplog.messages


def test_some_unquantized_layers_are_no_fault() -> None:
    assert check_kernels(Workers(PLAIN | INT8), config("compressed-tensors"), ()) == PLAIN | INT8


@pytest.mark.parametrize("workers", [None, Workers(RuntimeError("gone")), Workers()])
def test_kernels_that_cannot_be_read_do_not_stop_the_engine(workers: Any) -> None:
    assert check_kernels(workers, config("compressed-tensors"), ("CPUWNA16LinearKernel",)) == {}
