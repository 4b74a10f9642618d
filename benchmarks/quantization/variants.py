"""The compared variants of a model, and how stock vLLM is started for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout

DRAFTERS = ("ngram", "draft_model")
UNQUANTIZED = ("float32", "bfloat16")
CONTROL = "control"
"""The unquantized model once more, in the format that `paceline serve` chooses: the ratio of two
equal engines."""
MAX_MODEL_LEN = 2048
KV_CACHE_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine: which folder it serves, and in which formats."""

    name: str
    scheme: str | None = None
    """Of `paceline quantize`; None for the unquantized model."""
    backend: str = "own"
    """Of `paceline quantize`."""
    dtype: str = "auto"
    """`auto` is what `paceline serve` chooses for this machine and format."""
    kv_cache_dtype: str = "auto"
    drafter: str | None = None
    """One of `DRAFTERS`; None without speculation."""

    @property
    def folder(self) -> str | None:
        """Name of the folder that `paceline quantize` writes; None for the unquantized model."""
        return None if self.scheme is None else f"{self.scheme}-{self.backend}"

    @property
    def loaded_as(self) -> str:
        """Name of the same variant without speculation."""
        return self.name.partition("+")[0]


VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("float32", dtype="float32"),
        Variant("bfloat16", dtype="bfloat16"),
        Variant(CONTROL),
        Variant("w8a8", "w8a8"),
        Variant("w8a8-bfloat16", "w8a8", dtype="bfloat16"),
        Variant("awq", "awq"),
        Variant("gptq", "gptq"),
        Variant("fp8", "fp8"),
        Variant("nvfp4", "nvfp4"),
        Variant("kv-fp8", kv_cache_dtype="fp8"),
        Variant("llmc-awq", "awq", "llm-compressor"),
        Variant("llmc-gptq", "gptq", "llm-compressor"),
        Variant("llmc-w8a8", "w8a8", "llm-compressor"),
        Variant("llmc-fp8", "fp8", "llm-compressor"),
    )
}


def with_baselines(names: Collection[str]) -> list[Variant]:
    """The named variants after the unquantized ones and the control, without repetition."""
    always = (*UNQUANTIZED, CONTROL)
    return [VARIANTS[name] for name in (*always, *(n for n in names if n not in always))]


def choose_dtype(variant: Variant, kernel_dtypes: tuple[str, ...], hardware: Hardware) -> str:
    """The dtype in which the variant is served; `kernel_dtypes` as the gate of formats has them."""
    settings = LayoutSettings(variant.dtype, kernel_dtypes=kernel_dtypes, kv_cache_bytes=1)
    return choose_layout(hardware, settings).dtype


def engine_arguments(
    variant: Variant,
    folder: Path,
    dtype: str,
    draft: Path,
    draft_length: int,
    *,
    compiles: bool,
) -> dict[str, Any]:
    """The arguments of `vllm.LLM`. `folder` is the one that the variant serves."""
    arguments: dict[str, Any] = {
        "model": str(folder),
        "dtype": dtype,
        "seed": 0,
        "enforce_eager": not compiles,
        "enable_prefix_caching": False,
        "max_model_len": MAX_MODEL_LEN,
        "max_num_batched_tokens": MAX_MODEL_LEN,
        "max_num_seqs": 8,
        "kv_cache_memory_bytes": KV_CACHE_BYTES,
        "kv_cache_dtype": variant.kv_cache_dtype,
        "disable_log_stats": True,
    }
    if variant.drafter is None:
        return arguments
    speculative: dict[str, Any] = {"num_speculative_tokens": draft_length}
    if variant.drafter == "ngram":
        speculative |= {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    else:
        speculative |= {"method": "draft_model", "model": str(draft)}
    return arguments | {"speculative_config": speculative}


def speculating(base: str, best: str, drafters: Sequence[str]) -> list[Variant]:
    """The variants that show the product of a format and speculation.

    `base` and `best` name an unquantized and a quantized variant. Each comes without speculation
    and with each drafter; the control is `base` again.
    """
    found = []
    for name in (base, best):
        own = VARIANTS[name]
        found.append(own)
        found += [
            Variant(
                f"{name}+{drafter}", own.scheme, own.backend, own.dtype, own.kv_cache_dtype, drafter
            )
            for drafter in drafters
        ]
    return [*found, Variant(CONTROL, dtype=VARIANTS[base].dtype)]


def plan_batches(
    names: Sequence[str], always: Collection[str], sizes: Mapping[str, int], available: int
) -> list[list[str]]:
    """Split the engines into batches that fit into memory together, each with those of `always`.

    `sizes` and `available` are bytes; an engine of unknown size counts as the largest. One batch
    if all fit. An engine that does not fit beside `always` gets a batch anyway.

    >>> plan_batches(["a", "b", "c"], ["a"], {"a": 4, "b": 3, "c": 3}, 8)
    [['a', 'b'], ['a', 'c']]
    """
    largest = max(sizes.values(), default=0)
    base = [name for name in names if name in always]
    fixed = sum(sizes.get(name, largest) for name in base)
    batches: list[list[str]] = []
    room = 0
    for name in names:
        if name in base:
            continue
        need = sizes.get(name, largest)
        if not batches or need > room:
            batches.append(list(base))
            room = available - fixed
        batches[-1].append(name)
        room -= need
    return batches or [base]
