"""Read in a worker which kernel computes each linear layer of the loaded model.

vLLM chooses kernels per layer while it loads, and writes only the first choice of each kind to its
log. Quantized layers keep the chosen kernel as an attribute of their scheme (compressed-tensors) or
of their quantization method (the others); its class name ends in "Kernel".
"""

from __future__ import annotations

from collections import Counter
from typing import Any

_LAYER_METHODS = ("LinearMethod", "MoEMethod")
"""Ends of the class names of vLLM's methods for linear layers and for experts; embeddings and
attention have other methods."""


def read_kernels(worker: Any) -> dict[str, int]:
    """In the worker: return the number of layers by kernel, of the target model."""
    return count_kernels(worker.model_runner.get_model())


def count_kernels(model: Any) -> dict[str, int]:
    """Return the number of linear layers and groups of experts by kernel.

    A layer without a kernel of its own counts under the class of its method, such as
    `UnquantizedLinearMethod`.
    """
    names = (kernel_name(module) for module in model.modules())
    return dict(Counter(name for name in names if name is not None))


def kernel_name(module: Any) -> str | None:
    """Return the kernel of one module, with its variant in brackets; None for other modules."""
    method = getattr(module, "quant_method", None)
    if not any(end in type(method).__name__ for end in _LAYER_METHODS):
        return None
    for owner in (getattr(module, "scheme", None), method):
        for value in getattr(owner, "__dict__", {}).values():
            name = type(value).__name__
            if name.endswith("Kernel"):
                return name + _variant(module, value)
    return type(method).__name__


def _variant(module: Any, kernel: Any) -> str:
    """Return what vLLM's CPU kernels decide inside: the library, or the format of activations."""
    if getattr(module, "use_w4a8", False):
        return " (W4A8)"
    chosen = getattr(getattr(kernel, "linear_method", None), "__name__", "")
    return {"_apply_weights_onednn": " (oneDNN)", "_apply_weights_sgl": " (AMX)"}.get(chosen, "")
