"""Check at the start of an engine that its linear layers run the kernels that they should.

A format that vLLM cannot run on a machine may load without an error and leave the weights as they
are. An engine that was to quantize while loading (`--quantization`) must not serve then: its
operator believes in a speed and a memory use that it does not have. A quantization that the
checkpoint's own configuration names may be for the KV cache only; such an engine serves, with a
warning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.engine.compat.executor import Executor
from paceline.engine.worker.linear_kernels import read_kernels

logger = logging.getLogger("vllm.paceline.scheduler")

_UNQUANTIZED = "Unquantized"


def check_kernels(
    executor: Executor | None,
    quantization: str | None,
    expected: Sequence[str],
    *,
    is_stored: bool = False,
) -> dict[str, int]:
    """Log the kernels of all workers and return the number of layers by kernel.

    `quantization` is vLLM's name of the method in use, `expected` the kernels that the table of
    formats names; empty if it names none. `is_stored`: the checkpoint's configuration names the
    quantization. Raises ValueError where a quantization that is not stored has no effect.
    Kernels that cannot be read are logged and not judged: serving matters more.
    """
    kernels = _read(executor)
    if not kernels:
        return kernels
    without_effect = why_without_effect(kernels, quantization, is_stored=is_stored)
    if without_effect and not is_stored:
        raise ValueError(without_effect)
    if without_effect:
        logger.warning("Kernels: %s", without_effect)
    logger.info("Kernels: %s", render_kernels(kernels))
    surprise = why_unexpected(kernels, expected)
    if surprise:
        logger.warning("Kernels: %s", surprise)
    return kernels


def why_without_effect(
    kernels: Mapping[str, int], quantization: str | None, *, is_stored: bool
) -> str:
    """Return that no layer is quantized although vLLM was to, and what to do about it; else ""."""
    if quantization is None or not all(name.startswith(_UNQUANTIZED) for name in kernels):
        return ""
    finding = (
        f"the quantization method is {quantization}, but all {sum(kernels.values())} linear layers "
        f"are unquantized ({render_kernels(kernels)})"
    )
    if is_stored:
        return f"{finding}: the checkpoint's quantization_config applies to no weights"
    return (
        f"{finding}: it has no effect on this model. Remove --quantization, or serve a folder made "
        "by `paceline quantize`"
    )


def why_unexpected(kernels: Mapping[str, int], expected: Sequence[str]) -> str:
    """Return how the kernels differ from the table; "" if one of `expected` is among them."""
    if not expected or any(name.partition(" ")[0] in expected for name in kernels):
        return ""
    return (
        f"the linear layers run {render_kernels(kernels)}, expected {' or '.join(expected)}; the "
        "speed may differ from what was measured for this format"
    )


def render_kernels(kernels: Mapping[str, int]) -> str:
    """Return the kernels in words.

    >>> render_kernels({"CPUInt8ScaledMMLinearKernel (oneDNN)": 24})
    'CPUInt8ScaledMMLinearKernel (oneDNN) in 24 layers'
    """
    return ", ".join(
        f"{name} in {count} layer{'' if count == 1 else 's'}"
        for name, count in sorted(kernels.items())
    )


def _read(executor: Executor | None) -> dict[str, int]:
    """Return the layers of all workers by kernel; empty if they cannot be read. Never raises."""
    if executor is None:
        logger.warning("Kernels: not read, because the workers cannot be reached")
        return {}
    try:
        answers: list[dict[str, int]] = executor.collective_rpc(read_kernels)
        total: Counter[str] = Counter()
        for answer in answers:
            total.update(answer)
        return dict(total)
    except Exception as error:  # noqa: BLE001 - the kernels are information; the engine serves
        logger.warning("Kernels: not read: %s: %s", type(error).__name__, error)
        return {}


def quantization_of(vllm_config: Any) -> str | None:
    """Return vLLM's name of the quantization method in use; None if it does not quantize."""
    found = getattr(vllm_config.model_config, "quantization", None)
    return None if found is None else str(found)


def is_quantization_stored(vllm_config: Any) -> bool:
    """Return whether the model's own configuration names the quantization method."""
    architecture = getattr(vllm_config.model_config, "model_arch_config", None)
    return bool(getattr(architecture, "quantization_config", None))
