"""The claims of docs/experiments/README.md, which repeats a headline of every page."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents import (
    doctor,
    governor,
    latency_policy,
    prefill_trace,
    simulated_machines,
    speculation,
    step_time,
)
from benchmarks.claims.documents.failures import num_ended_with_an_error
from benchmarks.claims.documents.gateway import added_p99_of_all_ms
from benchmarks.claims.documents.shifting_trace import RESULT as SHIFTING_TRACE
from benchmarks.claims.readers import interleaved_figures, paired_ratios
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/README.md"
_TIMES = "\N{MULTIPLICATION SIGN}"
NOT_MEASURED = {
    "target": ("target 200", "the line is 80 %"),
    "setting": ("at 256 requests", "at 256 requests |", "whose steps take 3 ms", "vLLM 0.32"),
    "model card": ("84 % of JSON answers exactly right | renames: 2 %",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield claim(
        "{oracle.mean:.1f} % of the best length of each phase | worst phase {worst:.0f} % below",
        oracle=(trace := interleaved_figures(read(SHIFTING_TRACE)))["oracle"],
        worst=-trace["worst"].mean,
    )
    prefilling = interleaved_figures(read(prefill_trace.RESULT))
    yield claim(
        "{oracle.mean:.1f} % of the oracle | worst phase {worst:.0f} % below",
        oracle=prefilling["oracle"],
        worst=-prefilling["worst"].mean,
    )
    recorded, recorded_worst = governor.reached(read, governor.NOW)
    yield claim(
        "{all.lowest:.3f} to {all.highest:.3f} of the best length of each phase | worst phase "
        "{worst.lowest:.3f} to {worst.highest:.3f};",
        all=recorded,
        worst=recorded_worst,
    )
    simulated = read(simulated_machines.RESULT)
    of_oracle = Spread(
        simulated_machines.ratios(simulated, profile, drafter, trace, "of_oracle").mean
        for _, profile, drafter in simulated_machines.ROWS
        for trace in simulated_machines.TRACES
    ).percent()
    yield claim("{x.lowest:.1f} to {x.highest:.1f} % of the oracle", x=of_oracle)
    of_single = [
        simulated_machines.ratios(simulated, profile, drafter, trace, "of_best_single").mean
        for _, profile, drafter in simulated_machines.ROWS
        for trace in simulated_machines.TRACES
    ]
    yield claim(
        "below the best single length in {num_lost} of {num_cells} cells",
        num_lost=sum(ratio < 1 for ratio in of_single),
        num_cells=len(of_single),
    )
    steps = [run["policy"] for run in read(step_time.NOW)["runs"]]
    p99 = Spread(step["wall_p99_us"] for step in steps)
    yield claim(
        "{p50:.0f} µs in the median at 256 requests | P99 {p99.lowest:.0f} to {p99.highest:.0f} µs",
        p50=Spread(step["wall_p50_us"] for step in steps).median,
        p99=p99,
    )
    twin = read("speculation-twin-2026-11-21.json.gz")
    bundled = read("speculation-bundled-2026-11-21.json.gz")
    hard = Spread(
        paired_ratios(result, speculation.HARD, speculation.MODEL).median
        for result in (twin, bundled)
    )
    yield claim(
        "{gain:.2f}{sign} on predictable text | hard text {hard.lowest:.2f} to "
        "{hard.highest:.2f}{sign}",
        sign=_TIMES,
        gain=paired_ratios(twin, speculation.PREDICTABLE, speculation.MODEL).median,
        hard=hard,
    )
    cells = read(latency_policy.RESULT)["cells"]
    slower = Spread(latency_policy.slowdown(cell, "latency") for cell in cells).gain_percent()
    rates = (cell["arms"]["latency"]["tokens_per_s"] / cell["arms"]["goodput"]["tokens_per_s"]
             for cell in cells)  # fmt: skip
    yield claim(
        "slowest answers {slower.mean:.1f} % slower than at the best length, on average | up to "
        "{fewer:.0f} % fewer tokens per second",
        slower=slower,
        fewer=-Spread(rates).gain_percent().lowest,
    )
    pacing_run = read("prefill-pacing-bundled-2026-11-28-3.json")
    pacing = pacing_run["comparison"]
    yield claim(
        "P99 {stock:,.0f} → {paced:,.0f} ms with {ratio:.2f} of the chunks/s | time to first token "
        "of long prompts {sign}{times:.2f}; an objective of {objective:.0f} ms missed: "
        "{missed:.0f} ms",
        sign=_TIMES,
        stock=pacing["vLLM's limits"]["inter_chunk_p99_ms"][0],
        paced=pacing["longest pause"]["inter_chunk_p99_ms"][0],
        ratio=pacing["longest pause / vLLM's limits"]["chunks_per_s"][0],
        times=pacing["longest pause / vLLM's limits"]["long_first_token_p50_ms"][0],
        objective=pacing_run["plan"]["objective_ms"],
        missed=pacing["objective"]["inter_chunk_p99_ms"][0],
    )
    latency = read("gateway-added-latency-2026-11-21.json.gz")
    own, router = (
        added_p99_of_all_ms(latency, "256-brisk", arm) for arm in ("paceline", "vllm-router")
    )
    yield claim(
        "{own:.1f} ms added TTFT at P99 | the Rust router adds {router:.1f} ms",
        own=own,
        router=router,
    )
    kills, hangs, earlier = (
        read(f"chaos-real-{name}.json")["total"]
        for name in ("kills-2026-11-23-3", "hangs-2026-11-23-2", "kills-2026-11-23")
    )
    yield claim(
        "{completed:,} of {streams:,} streams that can be continued completed | {others} others "
        "ended with an error; before a fix, so did {lost} of {struck}; longest pause {pause_s:.1f} "
        "s |",
        completed=sum(run["num_eligible_streams_completed"] for run in (kills, hangs)),
        streams=sum(run["num_eligible_streams"] for run in (kills, hangs)),
        others=sum(num_ended_with_an_error(run) for run in (kills, hangs)),
        lost=earlier["num_eligible_streams"] - earlier["num_eligible_streams_completed"],
        struck=earlier["num_eligible_streams_struck"],
        pause_s=max(run["longest_silence_of_struck_s"] for run in (kills, hangs)),
    )
    greedy = read("losslessness-2026-11-22.json.gz")["greedy"]["draft model"]
    yield claim("{num_identical:,} of {num_prompts:,} greedy outputs identical", **greedy)
    served = [read(f"served-rate-{name}-2026-11-21.json")["ratio"] for name in ("twin", "bundled")]
    yield claim(
        "| {twin:.2f} of its rate | {bundled:.2f} with",
        twin=served[0]["median"],
        bundled=served[1]["median"],
    )
    losses = read(doctor.LOSSES)["summary"]
    yield claim(
        "states the loss at {stated:.2f} of the truth | its interval is wide; `--fix` on Paceline "
        "wins back {share:.0f} % of what it could",
        stated=losses["doctor"][1]["stated_over_true"],
        share=100 * losses["won_back_of_possible"],
    )
