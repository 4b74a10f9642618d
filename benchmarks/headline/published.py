"""Published figures of the same kind of stack, and what this benchmark measures beside each.

The published figures come from larger models on GPUs. Only ratios are compared, each against a
baseline of its own run. A row that falls short names the cause and what would close the gap. Every
row is measured for every arm of Paceline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.headline.arms import LAYOUT, NAIVE, PACELINE, PLAIN, parse_arm, with_scheme
from benchmarks.headline.cells import CACHED, NEW, SATURATED, SINGLE
from benchmarks.headline.comparisons import (
    USER_LEVELS,
    acceptance,
    throughput_cells,
    usd_per_million_tokens,
    users,
)
from benchmarks.headline.measured import (
    LATENCY_P50,
    REQUESTS_PER_S,
    TOKENS_PER_S,
    TPOT_P99,
    TTFT_P50,
    Figure,
    Floats,
    Measured,
)

_BY_ARITHMETIC = (
    "with many requests in flight, a step of a small model on a CPU is bound by arithmetic, not by "
    "memory: each drafted token that the target verifies costs nearly as much as one that it "
    "generates, so there is little for speculation to gain"
)
_WIDER_MACHINE = (
    "a machine whose decode steps wait for memory, such as a GPU, and a target that is larger "
    "relative to its draft"
)
_SMALL_BATCH_GAIN = (
    "two cores are nearly busy with one request, so batching adds less than on a GPU, where one "
    "request leaves most of the arithmetic idle"
)


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure and the same ratio here."""

    what: str
    """Figure and comparison, as measured here."""
    source: str
    """Stack and figures of the publication."""
    target: float
    """The published ratio, or the fraction for `is_fraction`; the lowest end of a range."""
    measure: Callable[[Column], Floats | None]
    """The ratio by repeat, (num_repeats,); None if an arm or a cell of it was not measured."""
    why: str
    """The likely cause where the ratio is lower than the target."""
    closes: str
    """What would close the gap."""
    is_fraction: bool = False
    """Whether the figure is a fraction of one, not a ratio."""
    quantizing_helps: bool = False
    """Whether quantized weights, too, would bring the unquantized server closer."""


@dataclass(frozen=True, slots=True)
class Column:
    """The figures of one arm of Paceline."""

    measured: Measured
    arm: str

    @property
    def scheme(self) -> str | None:
        """Of the weights."""
        return parse_arm(self.arm).scheme


def published_columns(measured: Measured) -> list[Column]:
    """`paceline`, measured or not, and every other measured arm of Paceline."""
    others = [arm for arm in measured.arms if arm.startswith(f"{PACELINE}+")]
    return [Column(measured, arm) for arm in (PACELINE, *others)]


def _gain(figure: Figure, base: str, cell: str) -> Callable[[Column], Floats | None]:
    def measure(column: Column) -> Floats | None:
        if not column.measured.has(cell, column.arm, base):
            return None
        return column.measured.gain(figure, column.arm, base, cell)

    return measure


def measure_acceptance(column: Column) -> Floats | None:
    """Of Paceline over the cells of answers."""
    cells = throughput_cells(column.measured)
    if not cells or not column.measured.has(cells[0], column.arm):
        return None
    found = acceptance(column.measured, column.arm, cells)
    return None if np.isnan(found).any() else found


def measure_floor(column: Column) -> Floats | None:
    """Output tokens/s of Paceline over vLLM without speculation, in the cell with the lowest mean.

    Both have the same layout and the same weights, so that only speculation and the gateway differ.
    """
    measured, base = column.measured, with_scheme(LAYOUT, column.scheme)
    cells = throughput_cells(measured)
    if not cells or not measured.has(cells[0], column.arm, base):
        return None
    by_cell = [measured.gain(TOKENS_PER_S, column.arm, base, cell) for cell in cells]
    return min(by_cell, key=lambda found: float(found.mean()))


def _prefix_caching(column: Column) -> Floats | None:
    measured, arm = column.measured, column.arm
    if not measured.has(CACHED, arm) or not measured.has(NEW, arm):
        return None
    found: Floats = measured.of(TTFT_P50, arm, NEW) / measured.of(TTFT_P50, arm, CACHED)
    return found


def _users(column: Column) -> Floats | None:
    measured, arm = column.measured, column.arm
    if not set(USER_LEVELS) <= set(measured.cells) or not measured.has(SINGLE, arm, NAIVE):
        return None
    found: Floats = users(measured, arm) / users(measured, NAIVE)
    return None if np.isnan(found).any() else found


def _price(column: Column) -> Floats | None:
    measured, arm = column.measured, column.arm
    if not measured.has(SATURATED, arm, NAIVE):
        return None
    # The price of the hour cancels.
    mine, naive = (usd_per_million_tokens(measured, one, 1.0) for one in (arm, NAIVE))
    found: Floats = naive / mine
    return found


_ADAPTIVE = "adaptive speculation on vLLM, 70B FP8 with an 8B INT4 draft, H100"
_QUANTIZED = "AWQ, continuous batching and speculation, 70B"
_ALL = "70B on one H100, all techniques"
PUBLISHED = (
    Published(
        "output tokens/s of 16 users, over plain vLLM",
        f"{_ADAPTIVE}: 450 → 1,180 tokens/s",
        2.6,
        _gain(TOKENS_PER_S, PLAIN, SATURATED),
        _BY_ARITHMETIC,
        _WIDER_MACHINE,
    ),
    Published(
        "P99 per output token of 16 users, plain vLLM over Paceline",
        f"{_ADAPTIVE}: 85 → 22 ms",
        3.9,
        _gain(TPOT_P99, PLAIN, SATURATED),
        _BY_ARITHMETIC,
        _WIDER_MACHINE,
    ),
    Published(
        "P50 time to first token after a shared system prompt, plain vLLM over Paceline",
        f"{_ADAPTIVE}: 240 → 110 ms",
        2.2,
        _gain(TTFT_P50, PLAIN, CACHED),
        "both servers have the same prefix cache and compute the same last tokens of the prompt; "
        "speculation starts after the first token",
        "a load at which requests queue, where answers that end earlier shorten the wait",
    ),
    Published(
        "accepted / drafted tokens of Paceline, over all cells",
        f"{_ADAPTIVE}: 0.45 to 0.82",
        0.68,
        measure_acceptance,
        "a drafter of this size, or a lookup of n-grams, predicts little of a free text, and a "
        "third of the cells is sampled; the governor drafts where it pays, at any acceptance",
        "a draft trained on the served traffic",
        is_fraction=True,
    ),
    Published(
        "output tokens/s in the worst cell, over vLLM without speculation in the same layout",
        f"{_ADAPTIVE}: static speculation loses 15 to 20 % on hard text",
        0.98,
        measure_floor,
        "trying whether drafting pays costs steps, and the gateway costs a part of the machine "
        "that the model uses too",
        "more cores than the engine needs, and cheaper trials of drafting",
    ),
    Published(
        "requests/s of 16 users, over naive serving",
        f"{_QUANTIZED}: 12 → 89 requests/s",
        7.4,
        _gain(REQUESTS_PER_S, NAIVE, SATURATED),
        _SMALL_BATCH_GAIN,
        "a machine with more arithmetic per byte of memory bandwidth",
        quantizing_helps=True,
    ),
    Published(
        "P50 latency of 16 users, naive serving over Paceline",
        f"{_QUANTIZED}: 2.1 → 0.4 s",
        5.2,
        _gain(LATENCY_P50, NAIVE, SATURATED),
        _SMALL_BATCH_GAIN,
        "a machine with more arithmetic per byte of memory bandwidth",
        quantizing_helps=True,
    ),
    Published(
        "P50 time to first token after a shared system prompt, naive serving over Paceline",
        f"{_ALL}: 480 → 45 ms",
        10.0,
        _gain(TTFT_P50, NAIVE, CACHED),
        "with a model this small, the question after the cached prefix and the fixed cost of a "
        "request are a larger part of the time to first token",
        "a longer prompt or a larger model",
    ),
    Published(
        "output tokens/s of a single stream, over naive serving",
        f"{_ALL}: 28 → 120 tokens/s",
        4.3,
        _gain(TOKENS_PER_S, NAIVE, SINGLE),
        "drafting and the fixed cost of a step are a large part of a step of so small a target",
        _WIDER_MACHINE,
    ),
    Published(
        "users within the limits, over naive serving",
        f"{_ALL}: 4 → 32 users",
        8.0,
        _users,
        "the measured levels are 1, 4, 16 and 64, so the ratio is one of a few",
        "more levels, and a machine on which batching adds more",
    ),
    Published(
        "price of 1M output tokens of 16 users, naive serving over Paceline",
        f"{_ALL}: $2.80 → $0.35",
        8.0,
        _price,
        _SMALL_BATCH_GAIN,
        "a machine with more arithmetic per byte of memory bandwidth",
        quantizing_helps=True,
    ),
    Published(
        "P50 time to first token of Paceline, new system prompt over one in the prefix cache",
        "prefix caching on a long shared system prompt: 50 to 80 % less",
        2.0,
        _prefix_caching,
        "the question after the cached prefix and the fixed cost of a request remain",
        "a longer shared prompt or a larger model",
    ),
)


def why_short(row: Published, short: Sequence[Column]) -> str:
    """The likely cause in these columns, and what it would take."""
    helps = row.quantizing_helps and all(column.scheme is None for column in short)
    return (
        f"Likely cause: {row.why}. It would take {row.closes}"
        f"{', and quantized weights' if helps else ''}."
    )
