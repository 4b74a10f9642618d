"""How weights are stored: the bytes of a matrix in each number format and quantization.

Sizes follow the tensors that vLLM creates for a format before it repacks them for a kernel: packed
integers, scales and zero points per group, scales per output channel, tensor or block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

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
    ignored: tuple[str, ...] = field(default=())
    """Modules left in `dtype`: names, or regular expressions after "re:"."""

    @property
    def dtype_bytes(self) -> int:
        """Bytes of a weight that is not quantized."""
        return DTYPE_BYTES[self.dtype]

    @property
    def is_quantized(self) -> bool:
        """Whether some matrices are stored in fewer bits than `dtype`."""
        return self.bits is not None

    def ignores(self, module: str) -> bool:
        """Whether the module of this full name keeps `dtype`."""
        if self.bits is None:
            return True
        for pattern in self.ignored:
            if pattern.startswith("re:"):
                if re.match(pattern[3:], module):
                    return True
            elif f"{module}.".startswith(f"{pattern}.") or pattern in module.split("."):
                return True
        return False

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
        return size


SCHEMES = ("none", "awq", "gptq", "w8a8", "fp8")
"""The formats that `named_format` knows, in the words of `paceline quantize`."""

_ROUTERS = ("lm_head", "gate")


def named_format(scheme: str, dtype: str) -> WeightFormat:
    """Return the usual form of a scheme: 4 bits in groups of 128, 8 bits per channel.

    Raises ValueError for a scheme that is not in `SCHEMES`.
    """
    if scheme == "none":
        return WeightFormat(dtype, dtype)
    if scheme == "awq":
        return WeightFormat(
            "awq", dtype, 4, "group", 128, 2, has_zero_points=True, ignored=_ROUTERS
        )
    if scheme == "gptq":
        return WeightFormat(
            "gptq", dtype, 4, "group", 128, 2, has_zero_points=True, ignored=_ROUTERS
        )
    if scheme in ("w8a8", "fp8"):
        return WeightFormat(scheme, dtype, 8, "channel", ignored=_ROUTERS)
    raise ValueError(f"quantization {scheme!r} is unknown; allowed: {', '.join(SCHEMES)}")


def read_weight_format(config: Mapping[str, Any], dtype: str) -> WeightFormat:
    """Return the format that the `quantization_config` of a `config.json` describes.

    Raises ValueError for a method or a scheme whose bytes are not known.
    """
    quantization = config.get("quantization_config") or config.get("compression_config")
    if not quantization:
        return WeightFormat(dtype, dtype)
    method = quantization.get("quant_method")
    ignored = quantization.get("modules_to_not_convert") or quantization.get("ignore") or ()
    ignored = (*_ROUTERS, *(str(name) for name in ignored))
    if method in ("awq", "gptq"):
        bits = quantization.get("bits", quantization.get("w_bit", 4))
        group = quantization.get("group_size", quantization.get("q_group_size", 128))
        is_channel = group in (-1, None)
        return WeightFormat(
            method,
            dtype,
            bits,
            "channel" if is_channel else "group",
            0 if is_channel else group,
            scale_bytes=2,
            has_zero_points=True,
            index_bytes_per_input=4 if quantization.get("desc_act") else 0,
            ignored=ignored,
        )
    if method == "fp8":
        block = quantization.get("weight_block_size")
        if block and block[0] != block[1]:
            raise ValueError(f"weight_block_size in config.json is {block}; only squares are known")
        return WeightFormat(
            "fp8", dtype, 8, "block" if block else "tensor", block[0] if block else 0, 4,
            ignored=ignored,
        )  # fmt: skip
    if method == "compressed-tensors":
        return _read_compressed_tensors(quantization, dtype, ignored)
    raise ValueError(
        f"quant_method in config.json is {method!r}; known: awq, gptq, fp8, compressed-tensors"
    )


def _read_compressed_tensors(
    quantization: Mapping[str, Any], dtype: str, ignored: tuple[str, ...]
) -> WeightFormat:
    groups = quantization.get("config_groups") or {}
    if len(groups) != 1:
        raise ValueError(
            f"config_groups in config.json has {len(groups)} entries; only one group, which covers "
            "all linear layers, is known"
        )
    (group,) = groups.values()
    weights = group.get("weights") or {}
    bits, strategy, kind = weights.get("num_bits"), weights.get("strategy"), weights.get("type")
    if strategy not in ("group", "channel", "tensor") or bits not in (4, 8):
        raise ValueError(
            f"weights in config_groups have num_bits {bits!r} and strategy {strategy!r}; known: 4 "
            "or 8 bits by group, channel or tensor"
        )
    is_packed = "pack" in (group.get("format") or quantization.get("format") or "")
    name = (
        "fp8" if kind == "float" else f"w{bits}a{16 if not group.get('input_activations') else 8}"
    )
    return WeightFormat(
        name,
        dtype,
        bits,
        strategy,
        weights.get("group_size") or 0,
        scale_bytes=DTYPE_BYTES[dtype] if is_packed else 4,
        has_zero_points=not weights.get("symmetric", True),
        ignored=ignored,
    )
