"""The gate: which number formats a vLLM release runs on which hardware, with the evidence.

The data is `number_formats.json`. vLLM has no list of its own on CPUs: a format that it cannot run
fails after minutes of loading, and some do nothing without a word. `judge_format` decides before
anything is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from paceline.foundation.compatibility.hardware_classes import (
    DESCRIPTIONS,
    HARDWARE_CLASSES,
    HardwareClass,
)
from paceline.foundation.compatibility.stored_formats import UNKNOWN, UNQUANTIZED
from paceline.foundation.compatibility.vllm_releases import short_release

Kind = Literal["weights", "kv_cache"]
Status = Literal["works", "slow", "fails", "no_effect", "wrong"]
"""`slow`: correct, but slower than unquantized. `no_effect`: loads, and leaves the weights as they
are. `wrong`: runs, and answers with other tokens."""

_USABLE: tuple[Status, ...] = ("works", "slow")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a row says what it says."""

    basis: Literal["tried", "source"]
    """`tried`: run on such hardware. `source`: read in the source of the release."""
    vllm: str
    what: str
    outcome: str


@dataclass(frozen=True, slots=True)
class FormatRow:
    """One cell of the table: some formats on some hardware under some releases."""

    kind: Kind
    formats: tuple[str, ...]
    hardware: tuple[HardwareClass, ...]
    releases: tuple[str, ...]
    """Major and minor version of vLLM, such as "0.32"."""
    status: Status
    reason: str
    """One clause, for messages."""
    evidence: Evidence
    instead: tuple[str, ...] = ()
    """What to use on this hardware, in words; empty if the row is usable."""
    dtypes: tuple[str, ...] = ()
    """Formats of the arithmetic that the kernel is compiled for; empty: all."""
    kernels: tuple[str, ...] = ()
    """Classes of vLLM, one of which computes the linear layers; empty: not known."""
    dense_only: bool = False
    """Whether the row holds for models without experts only; others get its reason as a caution."""

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"status is {self.status!r}; allowed: {', '.join(get_args(Status))}")
        unknown = sorted(set(self.hardware) - set(HARDWARE_CLASSES))
        if unknown:
            raise ValueError(f"hardware has {unknown}; allowed: {', '.join(HARDWARE_CLASSES)}")
        if not self.is_usable and not self.instead:
            raise ValueError(f"{', '.join(self.formats)}: a refusal must say what to use instead")

    @property
    def is_usable(self) -> bool:
        """Whether the format gives right answers."""
        return self.status in _USABLE


@dataclass(frozen=True, slots=True)
class FormatVerdict:
    """What the table says of one format on one machine."""

    format: str
    hardware: HardwareClass
    row: FormatRow | None
    """None if the table has no row, or the model is not quantized."""
    refusal: str = ""
    """Why it must not be served, and what to use instead; empty if it may."""
    caution: str = ""
    """What the user should know although it may be served; empty if nothing."""


def judge_format(
    kind: Kind,
    name: str,
    hardware: HardwareClass,
    release: str,
    dtype: str | None = None,
    has_experts: bool | None = None,
) -> FormatVerdict:
    """Return whether the format called `name` may be served. Never raises.

    `release` is a version of vLLM such as "0.32.0"; `dtype` the format of the arithmetic, None or
    "auto" where it is not decided yet; `has_experts` says whether the model has layers of experts,
    None where it is not known.
    """
    where = DESCRIPTIONS[hardware]
    if name in (UNQUANTIZED, "auto"):
        return FormatVerdict(name, hardware, None)
    row = find_row(kind, name, hardware, release)
    what = "the KV cache format" if kind == "kv_cache" else "the number format"
    if row is None:
        known = "which Paceline does not know" if name == UNKNOWN else "which nobody has tried"
        return FormatVerdict(
            name,
            hardware,
            None,
            caution=f"{what} is {name}, {known} on {where} with vLLM {release}",
        )
    if row.dense_only and has_experts is not False:
        caution = f"{what} is {name}: vLLM {release} {row.reason}"
        return FormatVerdict(name, hardware, row, caution=caution)
    if not row.is_usable:
        return FormatVerdict(
            name,
            hardware,
            row,
            refusal=f"{what} is {name}: on {where}, vLLM {release} {row.reason}. Use "
            f"{' or '.join(row.instead)} instead",
        )
    if row.dtypes and dtype not in (None, "auto", *row.dtypes):
        return FormatVerdict(
            name,
            hardware,
            row,
            refusal=f"{what} is {name}, whose kernel on {where} is compiled for "
            f"{' and '.join(row.dtypes)} only, and the dtype is {dtype}. Set the dtype to auto or "
            f"{row.dtypes[0]}",
        )
    caution = "" if row.status == "works" else f"{what} is {name}: on {where}, {row.reason}"
    return FormatVerdict(name, hardware, row, caution=caution)


def find_row(kind: Kind, name: str, hardware: HardwareClass, release: str) -> FormatRow | None:
    """Return the row of the table; None if nothing is known."""
    short = short_release(release)
    return next(
        (
            row
            for row in format_rows()
            if row.kind == kind
            and name in row.formats
            and hardware in row.hardware
            and short in row.releases
        ),
        None,
    )


def slow_row(kernel: str, classes: Collection[HardwareClass], release: str) -> FormatRow | None:
    """Return why this kernel of linear layers is slow on all of these classes; None if it is not.

    >>> slow_row("CPUInt8ScaledMMLinearKernel", ["cpu-avx512"], "0.32.0").reason
    'INT8 runs without VNNI, and may be slower than unquantized weights'
    >>> slow_row("CPUInt8ScaledMMLinearKernel", ["cpu-avx512", "cpu-amx"], "0.32.0")
    """
    short = short_release(release)
    rows = [
        row
        for row in format_rows()
        if row.kind == "weights" and kernel in row.kernels and short in row.releases
    ]
    found = [next((row for row in rows if one in row.hardware), None) for one in classes]
    return next(iter(found), None) if all(row and row.status == "slow" for row in found) else None


@cache
def format_rows() -> tuple[FormatRow, ...]:
    """Return the whole table, in the order of the file."""
    file = resources.files("paceline.foundation.compatibility") / "number_formats.json"
    return tuple(_read_row(entry) for entry in json.loads(file.read_text("utf-8"))["rows"])


def _read_row(entry: Mapping[str, Any]) -> FormatRow:
    given = dict(entry)
    evidence = Evidence(**given.pop("evidence"))
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return FormatRow(**{**given, **lists, "evidence": evidence})
