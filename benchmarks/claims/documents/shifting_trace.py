"""The claims of docs/experiments/shifting-trace.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.readers import interleaved_figures, spread_of, trace_findings
from benchmarks.claims.spread import Spread
from benchmarks.governor.report.adaptation import adaptations

DOCUMENT = "docs/experiments/shifting-trace.md"
NOT_MEASURED = {
    "setting": (
        "vLLM 0.32.0",
        "fixed lengths 0, 2, 4 and 8",
        "held at 0",
        "Held at 0",
        "8 s a phase",
        "a phase of 6 s has",
        "4 s a phase",
        "of 60 to 150 output tokens",
        "With 32 hard requests",
    ),
    "unit": ("steps to 95 % of the oracle |",),
    "target": (
        "≥ 97 %",
        "≥ +15 %",
        "≥ +5 %",
        "≥ -2 %",
        "≥ 85 %",
        "≤ 50",
        "95 % of the oracle after",
    ),
}
TWIN_AMD = "earlier/governor-twin-model-2026-11-21.json.gz"
TWIN_INTEL = "governor-twin-model-2026-11-21.json.gz"
NGRAM_INTEL = "governor-bundled-ngram-2026-11-21.json.gz"
INTERLEAVED = "governor-interleaved-twin-model-trace-2026-11-22-3.json.gz"
INTERLEAVED_EARLIER = {
    "0a91aab": "governor-interleaved-twin-model-trace-2026-11-22.json.gz",
    "938dd4a": "governor-interleaved-twin-model-trace-2026-11-22-2.json.gz",
}
WORST = "{floor.mean:.0f} % ({floor.lowest:.0f} to {floor.highest:.0f}; eight hard requests)"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from interleaved_claims(read(INTERLEAVED))
    for commit, name in INTERLEAVED_EARLIER.items():
        yield from _interleaved_earlier(read(name), commit)
    yield from _first(read(TWIN_AMD))
    yield from _second(read(TWIN_INTEL))
    yield from _ngram(read(NGRAM_INTEL))
    held = read("governor-held-at-zero-target-8-2026-11-22.json")["ratios"]
    yield claim(
        "takes {median:.2f} times as long as a step without speculation with n-gram (quartiles "
        "{lower_quartile:.2f}-{upper_quartile:.2f})",
        **held["ngram"],
    )
    yield claim(
        "and {median:.2f} times with the draft model ({lower_quartile:.2f}-{upper_quartile:.2f})",
        **held["draft_model"],
    )


def trace_figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of `goodput` on a trace: ratios in percent, over the repeats.

    `oracle` is relative to the best fixed length of each phase, `floor` to the better of no
    speculation and the best fixed length, in the worst phase; `single`, `table` and `none` are
    gains over the whole trace; `steps` is the slowest shift.
    """
    measured, findings = trace_findings(result)
    goodput = findings.arm("goodput")
    rates = {arm.arm: spread_of(arm.rate) for arm in findings.arms}
    shifts = adaptations(measured, "goodput", findings.oracle_arms)[1:]
    steps = [one.near_best_steps for one in shifts]
    return {
        "n": measured.num_repeats,
        "oracle": spread_of(goodput.of_oracle).percent(),
        "single": spread_of(goodput.of_best_single).gain_percent(),
        "table": spread_of(goodput.of_table).gain_percent(),
        "by_phase": spread_of(goodput.of_table_by_phase).gain_percent(),
        "none": _gain(rates["goodput"], rates["none"]),
        "floor": spread_of(goodput.worst_phase.of_floor).gain_percent(),
        "steps": None if None in steps else max(steps),
        "rates": rates,
        "arms": {arm.arm: spread_of(arm.of_oracle).percent() for arm in findings.arms},
        "held": rates["K=0"].mean / rates["none"].mean,
    }


def interleaved_claims(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The rows of the three tables on a result of `interleaved_trace.py`."""
    figures = interleaved_figures(result)
    for arm, name in (
        ("goodput", "**goodput**"),
        ("K=2", "K=2"),
        ("K=4", "K=4"),
        ("K=8", "K=8"),
        ("none", "no speculation"),
        ("none#again", "no speculation, a second engine"),
    ):
        yield claim(
            f"| {name} | {{rate.mean:.0f}} ({{rate.lowest:.0f}}-{{rate.highest:.0f}}) |",
            rate=figures["rates"][arm],
        )
    yield claim("mean (lowest to highest) of n = {n} repeats, commit", **figures)
    for text in (
        "| of the oracle | ≥ 97 % | {oracle.mean:.1f} % ({oracle.lowest:.1f}-{oracle.highest:.1f}) "
        "|",
        "| over the best single length | | {single.mean:+.1f} % ({single.lowest:.1f} to "
        "{single.highest:.1f}) |",
        "| of the oracle's lead over the best single length | ≥ 85 % | {lead:.0f} % |",
        "| worst phase, against the better of no speculation and the best length | ≥ -2 % | "
        "**{worst.mean:.0f} % ({worst.lowest:.0f} to {worst.highest:.0f}; `{worst_phase}`)** |",
        "| over no speculation | | {none.mean:+.0f} % ({none.lowest:.0f} to {none.highest:.0f}) |",
        "| the second engine without speculation, against the first | | {control.mean:+.1f} % "
        "({control.lowest:.1f} to {control.highest:.1f}) |",
    ):
        yield claim(text, **figures)
    for phase, floor in figures["floors"].items():
        yield claim(
            f"| `{phase}` | "
            "{floor.mean:+.0f} % ({floor.lowest:.0f} to {floor.highest:.0f}) | {near:.0f} % |",
            floor=floor,
            near=figures["near"][phase],
        )


def _interleaved_earlier(result: Mapping[str, Any], commit: str) -> Iterator[Claim]:
    figures = interleaved_figures(result)
    yield claim("each ended after two repeats (n = {n})", **figures)
    for text in (
        "{oracle.mean:.1f} % ({oracle.lowest:.1f}-{oracle.highest:.1f}) of the oracle, "
        "{single.mean:+.1f} % ({single.lowest:.1f} to {single.highest:.1f}) over the best single "
        "length, worst phase {worst.mean:.0f} % ({worst.lowest:.0f} to {worst.highest:.0f}; "
        "`{worst_phase}`)",
        "the second engine without speculation {control.mean:+.1f} % ({control.lowest:.1f} to "
        "{control.highest:.1f})",
    ):
        yield claim(text, **figures)
    if commit == "938dd4a":
        for phase in ("32-hard", "16-hard"):
            yield claim(f"`{phase}` ({{floor.mean:.0f}} %)", floor=figures["floors"][phase])


def _gain(own: Spread, other: Spread) -> Spread:
    ratios = (a / b for a, b in zip(own.values, other.values, strict=True))
    return Spread(ratios).gain_percent()


def _first(result: Mapping[str, Any]) -> Iterator[Claim]:
    figures = trace_figures(result)
    for arm, name, bold in (
        ("goodput", "**goodput**", "**"),
        ("table", "table by load, tuned on this trace", ""),
        ("K=2", "best single length, K=2", ""),
        ("K=4", "K=4", ""),
        ("K=8", "K=8", ""),
        ("none", "no speculation", ""),
        ("K=0", "held at 0", ""),
    ):
        yield claim(
            f"| {name} | {{rate.mean:.0f}} ({{rate.lowest:.0f}}-{{rate.highest:.0f}}) | "
            f"{bold}{{oracle.mean:.1f}} %{bold} ({{oracle.lowest:.1f}}-{{oracle.highest:.1f}}) |",
            rate=figures["rates"][arm],
            oracle=figures["arms"][arm],
        )
    yield claim("mean (lowest to highest) of n = {n} interleaved repeats", **figures)
    for text in (
        "| {oracle.mean:.1f} % ({oracle.lowest:.1f}-{oracle.highest:.1f}) | met |",
        "| {single.mean:+.1f} % ({single.lowest:.1f}-{single.highest:.1f}) | missed |",
        "| {table.mean:+.1f} % ({table.lowest:.1f}-{table.highest:.1f}) over the trace, "
        "{by_phase.mean:+.1f} % ({by_phase.lowest:.1f}-{by_phase.highest:.1f}) as the mean of the "
        "phases |",
        f"| {WORST} | **missed** |",
        "| {steps:.0f} | met |",
    ):
        yield claim(text, **figures)
    phases = trace_findings(result)[1].arm("goodput").phases
    held = trace_findings(result)[1].arm("K=0").phases
    yield claim(
        "In the worst phase the engine held at 0 is itself {lost:.0f} % slower than one without",
        lost=100 * (1 - _rate(held, "middle hard") / _rate_of_none(result, "middle hard")),
    )
    losses = sorted(one.of_floor.mean for one in phases)[1:3]
    yield claim(
        "Two more phases lose {small:.0f} and {large:.0f} %",
        small=100 * (1 - losses[1]),
        large=100 * (1 - losses[0]),
    )


def _rate(phases: Any, name: str) -> float:
    return float(next(one.rate.mean for one in phases if one.phase == name))


def _rate_of_none(result: Mapping[str, Any], name: str) -> float:
    return _rate(trace_findings(result)[1].arm("none").phases, name)


def _second(result: Mapping[str, Any]) -> Iterator[Claim]:
    figures = trace_figures(result)
    held, none = figures["rates"]["K=0"], figures["rates"]["none"]
    yield claim("n = {n}, commit `e4013ba`", **figures)
    measured = trace_findings(result)[0]
    step_ms = Spread(1000 / rate for rate in measured.rates("none")[:, 0])
    yield claim(
        "with {step.lowest:.0f} to {step.highest:.0f} ms per step at one request, so a phase of "
        "6 s has some {num_steps:.0f} steps",
        step=step_ms,
        num_steps=1000 * measured.seconds[0] / step_ms.mean,
    )
    yield claim("an idle server used {drafted:.2f} of a core", **result["idle_cores"])
    for text in (
        "| {oracle.mean:.1f} % ({oracle.lowest:.1f}-{oracle.highest:.1f}) |",
        "| {single.mean:+.1f} % ({single.lowest:.1f}-{single.highest:.1f}) |",
        "| {table.mean:+.1f} % ({table.lowest:.1f} to {table.highest:.1f}) |",
        f"| **{WORST}** |",
        "| {held:.2f} ({low.lowest:.0f} to {low.highest:.0f} tokens/s against {high.lowest:.0f} to "
        "{high.highest:.0f}) |",
    ):
        yield claim(text, **figures, low=held, high=none)


def _ngram(result: Mapping[str, Any]) -> Iterator[Claim]:
    figures = trace_figures(result)
    held, none = figures["rates"]["K=0"], figures["rates"]["none"]
    yield claim("n = {n}, commit `218f472`", **figures)
    yield claim("an idle server used {drafted:.2f} of a core", **result["idle_cores"])
    for text in (
        "| {oracle.mean:.1f} % ({oracle.lowest:.1f}-{oracle.highest:.1f}) |",
        "| {single.mean:+.1f} % ({single.lowest:.1f} to {single.highest:.1f}) |",
        "| {table.mean:+.1f} % ({table.lowest:.1f} to {table.highest:.1f}) |",
        "| {none.mean:+.0f} % ({none.lowest:.0f} to {none.highest:.0f}) |",
        f"| **{WORST}** |",
        "| **{steps:.0f} steps** |",
    ):
        yield claim(text, **figures)
    yield claim(
        "reached {held:.2f} of one without speculation ({low.mean:.0f} tokens/s against "
        "{high.mean:.0f})",
        held=figures["held"],
        low=held,
        high=none,
    )
