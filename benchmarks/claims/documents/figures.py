"""The claims of docs/figures.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents import governor, prefill_trace
from benchmarks.claims.documents.failures import num_ended_with_an_error
from benchmarks.claims.documents.gateway import added_p99_of_all_ms, num_requests
from benchmarks.claims.documents.shifting_trace import RESULT as SHIFTING_TRACE
from benchmarks.claims.readers import compared, interleaved_figures

DOCUMENT = "docs/figures.md"
NOT_MEASURED = {
    "setting": ("with 1 to 32 concurrent requests", "At 256 streams", "with 99 % intervals"),
    "target": ("| 97 %: met |", "| -2 %: missed |"),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for name in ("chat-1", "edit-1", "chat-16"):
        found = compared(read(f"compare-smollm2-{name}-2026-12-01.json"))
        yield claim("| {off:.1f} | {on:.1f} | {gain:+.1f} % ({low:+.1f} to {high:+.1f}) |", **found)
    chat = compared(read("compare-smollm2-chat-1-2026-12-01.json"))
    yield claim("after {ttft_on:.1f} ms, with it off after {ttft_off:.1f} ms", **chat)
    head = read("drafter-smollm2-2026-11-30.json")["acceptance"][0]
    yield claim(
        "{first:.2f} of the head's first drafts are right, greedily, and a step gives {length:.2f} "
        "tokens",
        first=head["accepted_per_position_fraction"][0]["value"],
        length=head["acceptance_length"]["value"],
    )
    now, now_worst = governor.reached(read, governor.NOW)
    yield claim(
        "reaches {now.lowest:.1f} to {now.highest:.1f} % of the best length of each phase, "
        "{worst.lowest:.1f} to {worst.highest:.1f} % in the worst phase",
        now=now.percent(),
        worst=now_worst.percent(),
    )
    trace = interleaved_figures(read(SHIFTING_TRACE))
    yield claim("differ by up to {apart:.0f} %", apart=-trace["control_worst"])
    yield claim("| | draft model, two Intel cores (n = {n}) | target |", **trace)
    for head, figure, spec, bold in (
        ("the best fixed draft length *of each phase* (share reached)", "oracle", ".1f", ""),
        ("the best single draft length", "single", "+.1f", ""),
        ("no speculation, whole trace", "none", "+.0f", ""),
        (
            "**the better of no speculation and the best length, worst phase**",
            "worst",
            "+.0f",
            "**",
        ),
        (
            "a second engine without speculation against the first: the noise",
            "control",
            "+.1f",
            "",
        ),
    ):
        yield claim(
            f"| {head} | {bold}{{{figure}.mean:{spec}}} %{bold} "
            f"({{{figure}.lowest:{spec}}} to {{{figure}.highest:{spec}}}) |",
            **trace,
        )
    prefilling = interleaved_figures(read(prefill_trace.RESULT))
    yield claim(
        "reached {oracle.mean:.1f} % ({oracle.lowest:.1f} to {oracle.highest:.1f}; worst phase "
        "{worst.mean:.0f} %; n = {n}",
        **prefilling,
    )
    kills, hangs, earlier = (
        read(f"chaos-real-{name}.json")["total"]
        for name in ("kills-2026-11-23-3", "hangs-2026-11-23-2", "kills-2026-11-23")
    )
    both = {
        key: kills[key] + hangs[key]
        for key in (
            "num_requests",
            "num_eligible_streams",
            "num_eligible_streams_completed",
            "num_eligible_streams_struck",
        )
    }
    yield claim(
        "received {num_kills} SIGKILLs and {num_hangs} SIGSTOPs, none of {num_requests:,} requests "
        "was lost before its first token ({num_anew} began anew), and "
        "{num_eligible_streams_completed:,} of {num_eligible_streams:,} streams that can be "
        "continued were completed token for token, among them {num_eligible_streams_struck:,} "
        "whose engine failed; the longest pause was "
        "{pause_s:.1f} s. {num_others:,} streams that cannot be continued",
        num_kills=kills["num_faults_injected"],
        num_hangs=hangs["num_faults_injected"],
        num_anew=sum(
            kind["num_begun_anew"] for run in (kills, hangs) for kind in run["kinds"].values()
        ),
        pause_s=max(run["longest_silence_of_struck_s"] for run in (kills, hangs)),
        num_others=num_ended_with_an_error(kills) + num_ended_with_an_error(hangs),
        **both,
    )
    yield claim(
        "A run of {num_kills} SIGKILLs before a fix lost {num_lost} of {num_streams} whose",
        num_kills=earlier["num_faults_injected"],
        num_lost=earlier["num_eligible_streams"] - earlier["num_eligible_streams_completed"],
        num_streams=earlier["num_eligible_streams_struck"],
    )
    mocks = read("soak-kills-2026-11-29.json")["total"]
    struck = [
        kind for name, kind in mocks["kinds"].items() if name.startswith(("greedy", "sampled"))
    ]
    yield claim(
        "Under {num_faults} SIGKILLs of mock replicas with decorated events",
        num_faults=mocks["num_faults_injected"],
    )
    yield claim(
        "of {num_struck:,} streams whose replica was killed, {num_completed} were completed and "
        "{num_beyond_limit} lost two replicas",
        num_struck=sum(kind["num_interrupted"] for kind in struck),
        num_completed=sum(kind["num_interrupted_completed"] for kind in struck),
        num_beyond_limit=sum(kind["num_beyond_limit"] for kind in struck),
    )
    latency = read("gateway-added-latency-2026-11-21.json.gz")
    (shape,) = (one["level"] for one in latency["levels"] if one["level"]["name"] == "256-brisk")
    yield claim(
        "At {num_streams} streams and {chunks_per_s:,.0f} chunks/s the gateway adds {own:.1f} ms "
        "to the P99 time to first token of {num:,} requests; in the same run vllm-router, written "
        "in Rust, adds {router:.1f} ms, and LiteLLM is saturated",
        num_streams=shape["num_streams"],
        chunks_per_s=1000 * shape["num_streams"] / shape["tpot_ms"],
        num=num_requests(latency, "256-brisk", "paceline"),
        own=added_p99_of_all_ms(latency, "256-brisk", "paceline"),
        router=added_p99_of_all_ms(latency, "256-brisk", "vllm-router"),
    )
