"""The claims of docs/experiments/shifting-trace.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.readers import interleaved_figures
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/shifting-trace.md"
NOT_MEASURED = {
    "setting": (
        "vLLM 0.32.0",
        "of 40 to 100 output tokens",
        "and 1 to 32 concurrent",
        "300 tokens at least",
        "at four and at sixteen",
        "at temperature 1",
        "at temperature 0.7",
        "less than 30 ms",
        "at 1, 4 and 16 requests",
    ),
    "observed": (
        "at 0.88 to 0.95 of no speculation",
        "makes a step 21 % longer; serving says 31 %",
        "took 1 ms longer than in an engine without drafts, 5 % at 16 requests",
        "takes 0.7 to 1 ms of a step of 12 ms",
        "3 ms of 20 at 16 requests",
    ),
    "target": (
        "97 % of the oracle and one chat at 0.96",
        "≥ 97 %",
        "≥ -2 %",
        "≥ 85 %",
        "at least 3 %",
        "96 %",
    ),
}
RESULT = "governor-interleaved-twin-model-campaign-2026-11-30.json.gz"
NGRAM = "governor-interleaved-twin-ngram-ngram-2026-11-30.json.gz"
ELSEWHERE = "governor-interleaved-twin-model-campaign-2026-11-30-2.json.gz"
RECORDED_ELSEWHERE = "governor-recorded-drafts-broad-measured-2026-11-30.json"
CHATS = "governor-interleaved-smollm2-135m-instruct-b179c952-1-head-chats-2026-12-01.json.gz"
CHAT_ARMS = ("goodput", "goodput-confident@peers")
BEFORE = "governor-interleaved-twin-model-trace-2026-11-22-3.json.gz"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    figures = interleaved_figures(read(RESULT))
    yield from interleaved_claims(read(RESULT))
    yield claim("by {apart:.0f} %", apart=-figures["control_worst"])
    floors = {phase: floor.mean for phase, floor in figures["floors"].items()}
    alone = Spread(100 + floor for phase, floor in floors.items() if phase.startswith("1-"))
    yield claim("**reaches {x.lowest:.0f} to {x.highest:.0f} %** of its best length", x=alone)
    yield claim(
        "**{few:+.0f} % and {many:+.0f} %**", few=floors["4-mixed"], many=floors["16-mixed"]
    )
    yield from _chat_model(read(CHATS))
    yield from _one_repeat(read(ELSEWHERE))
    elsewhere = read(RECORDED_ELSEWHERE)["scores"]["goodput"]["of_oracle"]
    yield claim("this machine measured, it reaches {x:.1f} %", x=100 * elsewhere)
    yield claim(
        "**{oracle.mean:.1f} % of the oracle** ({oracle.lowest:.1f} to {oracle.highest:.1f}; "
        "the target was ≥ 97 %), {single.mean:+.1f} % over the best single length, "
        "{none.mean:+.0f} % over no speculation. Worst phase {worst.mean:.0f} % (`{worst_phase}`)",
        **interleaved_figures(read(NGRAM)),
    )
    yield claim(
        "differ by up to {apart:.0f} % in a phase, in the mean",
        apart=-interleaved_figures(read(NGRAM))["control_worst"],
    )
    yield claim(
        "The governor before reached {oracle.mean:.1f} % "
        "({oracle.lowest:.1f}-{oracle.highest:.1f}; worst phase {worst.mean:.0f} %; n = {n})",
        **interleaved_figures(read(BEFORE)),
    )


def _chat_model(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The section on the chat model."""
    found = {arm: interleaved_figures(result, arm) for arm in CHAT_ARMS}
    own = found["goodput"]
    yield claim("of n = {n} repeats, the governor", **own)
    for head, figure, spec in (
        ("of the oracle", "oracle", ".1f"),
        ("over the best single length", "single", "+.1f"),
        ("over no speculation", "none", "+.1f"),
        ("worst phase, against the better of no speculation and the best length", "worst", "+.1f"),
    ):
        cells = " | ".join(
            f"{{{name}.mean:{spec}}} % ({{{name}.lowest:{spec}}} to {{{name}.highest:{spec}}})"
            for name in ("own", "confident")
        )
        first, second = (found[arm][figure] for arm in CHAT_ARMS)
        yield claim(f"| {head} | {cells} |", own=first, confident=second)
    yield claim(
        "| the second engine without speculation, against the first | {control.mean:+.1f} % "
        "({control.lowest:+.1f} to {control.highest:+.1f}) |",
        **own,
    )
    yield claim(
        "in the phase where they differ most, by {apart:.0f} %", apart=-own["control_worst"]
    )
    for phase, floor in own["floors"].items():
        other = found["goodput-confident@peers"]["floors"][phase]
        yield claim(
            f"| `{phase}` | {{own.mean:+.1f}} % ({{own.lowest:+.0f}} to {{own.highest:+.0f}}) | "
            "{other.mean:+.1f} % ({other.lowest:+.0f} to {other.highest:+.0f}) |",
            own=floor,
            other=other,
        )


def _one_repeat(result: Mapping[str, Any]) -> Iterator[Claim]:
    """Of a result with one repeat, which has no other one to choose the best arms on."""
    rates: dict[str, dict[str, float]] = {}
    for run in result["runs"]:
        rates.setdefault(run["phase"], {})[run["arm"]] = run["tokens"] / run["seconds"]
    controls = Spread(100 * (one["none#again"] / one["none"] - 1) for one in rates.values())
    yield claim("differ by {x.lowest:.0f} to {x.highest:+.0f} % in a phase", x=controls)
    fixed = ("none", "K=2", "K=4", "K=8")
    mine_s = sum(1 / one["goodput"] for one in rates.values())
    best_s = sum(1 / max(map(one.__getitem__, fixed)) for one in rates.values())
    single_s = min(sum(1 / one[arm] for one in rates.values()) for arm in fixed)
    yield claim(
        "reached {best:.0f} % of the best arm of each phase, chosen on the same repeat, and "
        "{single:+.0f} % over",
        best=100 * best_s / mine_s,
        single=100 * (single_s / mine_s - 1),
    )


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
