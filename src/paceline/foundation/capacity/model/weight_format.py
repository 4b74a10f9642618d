"""How weights are stored: the bytes of a matrix in each number format and quantization.

Sizes follow the tensors that vLLM creates for a format before it repacks them for a kernel: packed
integers, scales and zero points per group, scales per output channel, tensor or block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

_BITS = (2, 3, 4, 8)
Scales = Literal["none", "group", "channel", "tensor", "block"]


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """The storage of the matrices of a model; embeddings, norms and routers keep `dtype`."""

    name: str
    """As the report prints it: "bfloat16", "awq", "fp8" and so on."""
    dtype: str
    """Of everything that is not quantized."""
    bits: int | None = None
    """Per weight of a quantized matrix; None where nothing is quantized."""
    scales: Scales = "none"
    group_size: int = 0
    """Inputs that share a scale, with scales per group; the edge of a square, per block."""
    scale_bytes: int = 4
    has_zero_points: bool = False
    index_bytes_per_input: int = 0
    """The group index of each input row, where GPTQ reorders them (desc_act)."""
    tensor_scale_bytes: int = 0
    """Of scales of the whole matrix, beside those per group."""
    ignored: tuple[str, ...] = field(default=())
    """Modules left in `dtype`: names, or regular expressions after "re:"."""
    overrides: tuple[tuple[str, WeightFormat], ...] = field(default=())
    """Formats of single modules, by a name or an expression after "re:"; the first counts."""
    kv_dtype: str | None = None
    """Of the KV cache that the checkpoint asks for; None for `dtype`."""

    def __post_init__(self) -> None:
        if self.bits is not None and (type(self.bits) is not int or self.bits not in _BITS):
            raise ValueError(
                f"a quantized weight has {self.bits!r} bits; known: {', '.join(map(str, _BITS))}"
            )
        is_grouped = self.scales in ("group", "block")
        if is_grouped and (type(self.group_size) is not int or self.group_size < 1):
            raise ValueError(
                f"the group_size of quantized weights is {self.group_size!r}; it must be a "
                "positive integer"
            )
        for pattern in (*self.ignored, *(pattern for pattern, _ in self.overrides)):
            if pattern.startswith("re:"):
                _check_expression(pattern[3:])

    @property
    def dtype_bytes(self) -> int:
        """Bytes of a weight that is not quantized."""
        return DTYPE_BYTES[self.dtype]

    @property
    def is_quantized(self) -> bool:
        """Whether some matrices are stored in fewer bits than `dtype`."""
        return self.bits is not None or bool(self.overrides)

    def of_module(self, module: str) -> WeightFormat:
        """The format of the module of this full name."""
        plain = WeightFormat(self.dtype, self.dtype)
        if any(is_matched(pattern, module) for pattern in self.ignored):
            return plain
        for pattern, own in self.overrides:
            if is_matched(pattern, module):
                return own
        return self

    def matrix_bytes(self, inputs: int, outputs: int, parts: int = 1) -> int:
        """Bytes of one quantized matrix with its scales and zero points.

        `parts` matrices of the checkpoint are joined in it, each with its own scale per tensor.

        >>> W4 = named_format("awq", "float16")
        >>> W4.matrix_bytes(4096, 4096)  # 8,388,608 packed, 262,144 scales, 65,536 zero points
        8716288
        """
        if self.bits is None:
            return inputs * outputs * self.dtype_bytes
        size = inputs * outputs * self.bits // 8 + inputs * self.index_bytes_per_input
        if self.scales == "group":
            groups = ceil(inputs / self.group_size)
            size += groups * outputs * self.scale_bytes
            if self.has_zero_points:
                size += groups * outputs * self.bits // 8
        elif self.scales == "channel":
            size += outputs * self.scale_bytes
        elif self.scales == "block":
            blocks = ceil(inputs / self.group_size) * ceil(outputs / self.group_size)
            size += blocks * self.scale_bytes
        elif self.scales == "tensor":
            size += parts * self.scale_bytes
        return size + parts * self.tensor_scale_bytes


def _check_expression(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error as error:
        raise ValueError(
            f"a module of quantization_config is named by {expression!r}, which is no regular "
            f"expression: {error}"
        ) from None


SCHEMES = ("none", "awq", "gptq", "w8a8", "fp8")
"""The formats that `named_format` knows, in the words of `paceline quantize`."""

ROUTERS = ("lm_head", "gate")
"""Modules that stay in `dtype` in every format."""


def named_format(scheme: str, dtype: str) -> WeightFormat:
    """Return the usual form of a scheme: 4 bits in groups of 128, 8 bits per channel.

    Raises ValueError for a scheme that is not in `SCHEMES`.
    """
    if scheme == "none":
        return WeightFormat(dtype, dtype)
    if scheme == "awq":
        return WeightFormat("awq", dtype, 4, "group", 128, 2, has_zero_points=True, ignored=ROUTERS)
    if scheme == "gptq":
        return WeightFormat(
            "gptq", dtype, 4, "group", 128, 2, has_zero_points=True, ignored=ROUTERS
        )
    if scheme in ("w8a8", "fp8"):
        return WeightFormat(scheme, dtype, 8, "channel", ignored=ROUTERS)
    raise ValueError(f"quantization {scheme!r} is unknown; allowed: {', '.join(SCHEMES)}")


def is_matched(pattern: str, module: str) -> bool:
    """Whether a name, or a regular expression after "re:", means this module."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    return f"{module}.".startswith(f"{pattern}.") or pattern in module.split(".")
