"""Bootstrap intervals of a run's figures, over its repeats or over blocks of its time.

Requests of one server are not independent: a slow second is slow for all of them. Whole repeats, or
whole blocks of time longer than a request, are drawn with replacement instead. A percentile
bootstrap of few units is too narrow, so its levels are expanded to
Phi(-/+ sqrt(n / (n - 1)) t_{0.975, n - 1}) (Hesterberg, What Teachers Should Know About the
Bootstrap, 2015, section 5.3).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.series import token_arrivals
from paceline.foundation.results.slo import Slo, count_met

MIN_UNITS = 5
"""With fewer, resampling cannot show the spread."""
MAX_BLOCKS = 20
"""Chosen: enough units for an interval, each long enough to hold several requests."""
NUM_RESAMPLES = 2000
_SEED = 0
_LEVELS = (50, 90, 99)
_DRAWS_AT_A_TIME = 64
"""Bounds the memory: 64 draws of 100,000 samples are 51 MB."""
# 97.5 % quantiles of Student's t for 4 to 30 degrees of freedom; beyond, the normal quantile.
_T_975 = (
    2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
    2.042,
)  # fmt: skip

Floats = npt.NDArray[np.float64]
UnitKind = Literal["repeats", "blocks"]


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """A 95 % interval of one figure."""

    low: float
    high: float
    units: UnitKind
    """What was drawn with replacement."""
    num_units: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """The figures of one repeat or block."""

    seconds: float
    tokens: float
    num_ok: int
    num_met: int | None
    """None without an SLO, or if unknown."""
    ttft_ms: Floats
    tpot_ms: Floats


def bootstrap_figures(
    repeats: Sequence[Sequence[RequestRecord]], slo: Slo | None
) -> dict[str, BootstrapInterval]:
    """Intervals by figure (`output_tokens_per_s`, `ttft_ms.p50`, …) from each repeat's records.

    Draws repeats if there are at least MIN_UNITS, else blocks of all of them. Empty if the run is
    too short for either. Rates cover the whole window, as those of the summary do.
    """
    full = [records for records in repeats if records]
    kind: UnitKind = "repeats"
    units = [unit for records in full for unit in _cut(records, 1, slo)]
    if len(units) < MIN_UNITS:
        kind = "blocks"
        units = _cut_all(full, slo)
    if len(units) < MIN_UNITS:
        return {}
    draws = np.random.default_rng(_SEED).integers(len(units), size=(NUM_RESAMPLES, len(units)))
    counts = np.stack([(draws == unit).sum(axis=1) for unit in range(len(units))], axis=1)
    low, high = expanded_levels(len(units))
    intervals = {}
    for name, values in _resampled_figures(units, counts).items():
        bounds = np.quantile(values, (low, high))
        intervals[name] = BootstrapInterval(float(bounds[0]), float(bounds[1]), kind, len(units))
    return intervals


def expanded_levels(num_units: int) -> tuple[float, float]:
    """The quantiles of the resampled figures that bound a 95 % interval."""
    degrees = num_units - 1
    t_quantile = _T_975[degrees - 4] if degrees - 4 < len(_T_975) else 1.96
    low = statistics.NormalDist().cdf(-math.sqrt(num_units / degrees) * t_quantile)
    return low, 1 - low


def _cut_all(repeats: Sequence[Sequence[RequestRecord]], slo: Slo | None) -> list[_Unit]:
    """Blocks of all repeats, at most MAX_BLOCKS, none shorter than half of the requests take."""
    if not repeats:
        return []
    typical_s = statistics.median(r.e2e_s for records in repeats for r in records)
    per_repeat = max(1, MAX_BLOCKS // len(repeats))
    units = []
    for records in repeats:
        start_s, end_s = _window(records)
        longest = int((end_s - start_s) / typical_s) if typical_s > 0 else per_repeat
        units += _cut(records, max(1, min(per_repeat, longest, len(records) // 2)), slo)
    return units


def _cut(records: Sequence[RequestRecord], num_blocks: int, slo: Slo | None) -> list[_Unit]:
    """Blocks of equal length of one repeat.

    Tokens count when they arrive, requests when they end, latencies when the request was due.
    """
    start_s, end_s = _window(records)
    if not end_s > start_s:
        return []
    edges = np.linspace(start_s, end_s, num_blocks + 1)
    tokens = np.diff(token_arrivals(records).tokens_before(np.append(edges[:-1], np.inf)))
    inner = edges[1:-1]
    due_block = np.searchsorted(inner, [r.scheduled_s for r in records], side="right")
    end_block = np.searchsorted(inner, [r.finished_s for r in records], side="right")
    units = []
    for block in range(num_blocks):
        due = [r for r, b in zip(records, due_block, strict=True) if b == block and r.is_ok]
        ended = [r for r, b in zip(records, end_block, strict=True) if b == block]
        units.append(
            _Unit(
                seconds=float(edges[block + 1] - edges[block]),
                tokens=float(tokens[block]),
                num_ok=sum(r.is_ok for r in ended),
                num_met=count_met(ended, slo) if slo else None,
                ttft_ms=np.array([r.ttft_s * 1e3 for r in due if r.ttft_s is not None]),
                tpot_ms=np.array([r.tpot_s * 1e3 for r in due if r.tpot_s is not None]),
            )
        )
    return units


def _window(records: Sequence[RequestRecord]) -> tuple[float, float]:
    return min(r.scheduled_s for r in records), max(r.finished_s for r in records)


def _resampled_figures(units: Sequence[_Unit], counts: npt.NDArray[np.int64]) -> dict[str, Floats]:
    """Each figure of each resample, (num_resamples,), from how often each unit was drawn."""
    seconds = counts @ np.array([unit.seconds for unit in units])
    figures = {
        "output_tokens_per_s": counts @ np.array([unit.tokens for unit in units]) / seconds,
        "requests_per_s": counts @ np.array([unit.num_ok for unit in units]) / seconds,
    }
    met = [unit.num_met for unit in units if unit.num_met is not None]
    if len(met) == len(units):
        figures["goodput.requests_per_s"] = counts @ np.array(met) / seconds
    for name in ("ttft_ms", "tpot_ms"):
        values = _resampled_percentiles([getattr(unit, name) for unit in units], counts)
        for level, column in values.items():
            figures[f"{name}.p{level}"] = column
    return figures


def _resampled_percentiles(
    samples: Sequence[Floats], counts: npt.NDArray[np.int64]
) -> dict[int, Floats]:
    """The percentiles of each resample by level; empty if a resample may lack samples.

    A sample counts as often as its unit was drawn. Percentiles are order statistics here, without
    interpolation, which moves them by less than the gap between two samples.
    """
    lengths = np.array([len(values) for values in samples])
    if not (counts @ lengths).all():
        return {}
    values = np.concatenate(samples)
    order = np.argsort(values, kind="stable")
    values, unit_of = values[order], np.repeat(np.arange(len(samples)), lengths)[order]
    found: dict[int, list[Floats]] = {level: [] for level in _LEVELS}
    for start in range(0, len(counts), _DRAWS_AT_A_TIME):
        weights = counts[start : start + _DRAWS_AT_A_TIME][:, unit_of].cumsum(axis=1)
        for level in _LEVELS:
            wanted = np.maximum(np.ceil(weights[:, -1:] * (level / 100)), 1)
            found[level].append(values[(weights >= wanted).argmax(axis=1)])
    return {level: np.concatenate(parts) for level, parts in found.items()}
