"""Figures that several documents take from the same kinds of raw results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.claims.spread import Spread
from benchmarks.governor.interleaved import analysis as interleaved
from benchmarks.governor.interleaved.lengths import find_lengths
from benchmarks.governor.interleaved.measured import read_measured


def paired_ratios(
    result: Mapping[str, Any], load: str, arm: str, figure: str = "output_tokens_per_s"
) -> Spread:
    """An arm of `benchmarks/paired.py` relative to its baseline, one ratio per repeat."""
    (found,) = (
        one["ratios"]
        for one in result["comparisons"]
        if (one["load"], one["arm"], one["figure"]) == (load, arm, figure)
    )
    return Spread(found)


def interleaved_figures(result: Mapping[str, Any], arm: str = "goodput") -> dict[str, Any]:
    """The figures of one policy in a result of `benchmarks/governor/interleaved_trace.py`.

    In percent, with `mean`, `lowest`, `highest` and `n`: `oracle` (of the oracle), `single` and
    `oracle_over_single` (gains over the best single length), `none` (gain over no speculation),
    `control` (change from the first engine without speculation to the second), and by the name of
    each phase `floors` (change against the better of no speculation and the best fixed length).
    `worst` is the floor of `worst_phase`, `control_worst` that of the slower of the two engines
    without speculation against the other, in the phase where their means differ most. `lead` is the
    share of the oracle's lead in percent, `near` by phase the percent of steps within one of the
    best length. `rates` are tokens per second over the trace, by arm.
    """
    measured = read_measured(result)
    findings = interleaved.analyse(measured)
    (policy,) = (one for one in findings.policies if one.arm == arm)
    lengths = (one for one in find_lengths(measured, findings) if one.arm == arm)
    control = findings.control_over_trace
    rates = {name: measured.trace_rate(found) for name, found in measured.rates.items()}
    return {
        "n": measured.num_repeats,
        "rates": {name: interleaved.range_of(found) for name, found in rates.items()},
        "none": _in_percent(interleaved.range_of(rates[arm] / rates[measured.controls[0]]), less=1),
        "oracle": _in_percent(policy.of_oracle),
        "single": _in_percent(policy.of_single, less=1),
        "oracle_over_single": _in_percent(policy.oracle_of_single, less=1),
        "control": None if control is None else _in_percent(control, less=1),
        "control_worst": None if findings.control is None else 100 * (_apart(findings.control) - 1),
        "floors": {
            phase: _in_percent(found, less=1)
            for phase, found in zip(measured.phases, policy.of_floor, strict=True)
        },
        "worst": _in_percent(policy.of_floor[policy.worst_phase], less=1),
        "worst_phase": measured.phases[policy.worst_phase],
        "lead": 100 * policy.lead_share,
        "near": {measured.phases[one.phase]: 100 * one.near for one in lengths},
    }


def _apart(control: Sequence[interleaved.Range]) -> float:
    return min(min(one.mean, 1 / one.mean) for one in control)


def _in_percent(found: interleaved.Range, less: float = 0.0) -> interleaved.Range:
    mean, lowest, highest = (
        100 * (value - less) for value in (found.mean, found.lowest, found.highest)
    )
    return interleaved.Range(mean, lowest, highest, found.n)


def compared(result: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures of a result of `paceline bench compare`: `off` and `on`, the output tokens/s of
    its arms, their `gain` with `low` and `high` in percent (None without an interval), and their
    times to the first token, `ttft_off` and `ttft_on`, in ms."""
    arms, found = result["arms"], result["difference"]["output_tokens_per_s"]
    return {
        "off": arms["a"]["output_tokens_per_s"],
        "on": arms["b"]["output_tokens_per_s"],
        "ttft_off": arms["a"]["ttft_ms"],
        "ttft_on": arms["b"]["ttft_ms"],
        **{
            name: None if found[key] is None else 100 * found[key]
            for name, key in (("gain", "relative"), ("low", "low"), ("high", "high"))
        },
    }
