"""Which kernel computes each layer is read from what vLLM keeps on its modules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paceline.engine.worker.linear_kernels import count_kernels, read_kernels


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


def test_layers_are_counted_by_kernel_and_variant() -> None:
    int8 = layer(
        quant_method=CompressedTensorsLinearMethod(),
        scheme=SimpleNamespace(strategy="channel", kernel=CPUInt8ScaledMMLinearKernel()),
    )
    awq = layer(quant_method=AutoAWQMarlinLinearMethod(CPUWNA16LinearKernel()), use_w4a8=True)
    plain = layer(quant_method=UnquantizedLinearMethod())
    embedding = layer(quant_method=UnquantizedEmbeddingMethod())
    assert count_kernels(model(layer(), int8, int8, awq, plain, embedding)) == {
        "CPUInt8ScaledMMLinearKernel (oneDNN)": 2,
        "CPUWNA16LinearKernel (W4A8)": 1,
        "UnquantizedLinearMethod": 1,
    }


def test_the_target_is_read_in_the_worker() -> None:
    target = model(layer(quant_method=UnquantizedLinearMethod()))
    worker = SimpleNamespace(model_runner=SimpleNamespace(get_model=lambda: target))
    assert read_kernels(worker) == {"UnquantizedLinearMethod": 1}
