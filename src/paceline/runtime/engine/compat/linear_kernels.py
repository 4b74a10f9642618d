"""Read which kernel computes each linear layer, and check it at the start of an engine.

vLLM chooses kernels per layer while it loads, and writes only the first choice of each kind to its
log. Quantized layers keep the chosen kernel as an attribute of their scheme (compressed-tensors) or
of their quantization method (the others); its class name ends in "Kernel".

A format that vLLM cannot run on a machine may load without an error and leave the weights as they
are. An engine that was to quantize while loading (`--quantization`) must not serve then: its
operator believes in a speed and a memory use that it does not have. A quantization that the
checkpoint's own configuration names may be for the KV cache only; such an engine serves, with a
warning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from paceline.foundation.compatibility.kernels import (
    render_kernels,
    why_unexpected,
    why_without_effect,
)
from paceline.runtime.engine.compat.executor import Executor

logger = logging.getLogger("vllm.paceline.scheduler")

_LAYER_METHODS = ("LinearMethod", "MoEMethod")
"""Ends of the class names of vLLM's methods for linear layers and for experts; embeddings and
attention have other methods."""


def check_kernels(
    executor: Executor | None, vllm_config: Any, expected: Sequence[str]
) -> dict[str, int]:
    """Log the kernels of all workers and return the number of layers by kernel.

    `expected`: the kernels that the table of formats names; empty if it names none. Raises
    ValueError where a quantization that the checkpoint does not name has no effect. Kernels that
    cannot be read are logged and not judged: serving matters more.
    """
    if executor is None:
        logger.warning("Kernels: not read, because the workers cannot be reached")
        return {}
    kernels: Counter[str] = Counter()
    try:
        for answer in executor.collective_rpc(read_kernels):
            kernels.update(answer)
    except Exception as error:  # noqa: BLE001 - the kernels are information; the engine serves
        logger.warning("Kernels: not read: %s: %s", type(error).__name__, error)
        return {}
    if not kernels:
        return {}
    model_config = vllm_config.model_config
    architecture = getattr(model_config, "model_arch_config", None)
    is_stored = bool(getattr(architecture, "quantization_config", None))
    without_effect = why_without_effect(
        kernels, getattr(model_config, "quantization", None), is_stored=is_stored
    )
    if without_effect and not is_stored:
        raise ValueError(without_effect)
    logger.info("Kernels: %s", render_kernels(kernels))
    for surprise in (without_effect, why_unexpected(kernels, expected)):
        if surprise:
            logger.warning("Kernels: %s", surprise)
    return dict(kernels)


def read_kernels(worker: Any) -> dict[str, int]:
    """In the worker: return the layers and groups of experts of the target model by kernel.

    A layer without a kernel of its own counts under the class of its method, such as
    `UnquantizedLinearMethod`.
    """
    names = map(_kernel_name, worker.model_runner.get_model().modules())
    return dict(Counter(filter(None, names)))


def _kernel_name(module: Any) -> str | None:
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
