"""The claims of docs/mock-vllm.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/mock-vllm.md"
NOT_MEASURED = {"setting": ("The machine, 2 virtual cores",)}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    runs = read("mock-vllm-capacity-2026-11-21.json")["runs"]
    full = [run for run in runs if run["asked_tokens_per_s"] == 51_200]
    wide = [run for run in runs if run["num_streams"] == 4096]
    alone = [run for run in runs if run["server_cpu_fraction"] > 0.7]
    shared = [run for run in runs if run["late_ms_p99"] > 1000]
    cpu_us = "server_cpu_us_per_token"
    yield claim(
        "takes {cpu.lowest:.0f} to {cpu.highest:.0f} µs of CPU per streamed token (one token per "
        "event, `return_token_ids`) at a load of {load:,.0f} tokens/s in {streams.lowest:,.0f} to "
        "{streams.highest:,.0f} streams",
        cpu=Spread(run[cpu_us] for run in full),
        load=full[0]["asked_tokens_per_s"],
        streams=Spread(run["num_streams"] for run in full),
    )
    yield claim(
        "With {streams:,} streams it takes {cpu.lowest:.0f} to {cpu.highest:.0f} µs",
        streams=wide[0]["num_streams"],
        cpu=Spread(run[cpu_us] for run in wide),
    )
    yield claim("up to {highest:.0f} µs", highest=max(run[cpu_us] for run in runs))
    fastest = max(alone, key=lambda run: run["tokens_per_s"])
    on_time = max(
        (run for run in alone if run["late_ms_p99"] < 0), key=lambda run: run["tokens_per_s"]
    )
    yield claim(
        "delivered {tokens_per_s:,.0f} tokens/s in {num_streams:,} streams ({kept:.0f} % of the "
        "load, p99 {late_s:.1f} s late after {run_s:.0f} s) and {other_rate:,.0f} tokens/s in "
        "{other_streams:,} streams with no delay",
        tokens_per_s=round(fastest["tokens_per_s"], -2),
        num_streams=fastest["num_streams"],
        kept=100 * fastest["tokens_per_s"] / fastest["asked_tokens_per_s"],
        late_s=fastest["late_ms_p99"] / 1000,
        run_s=read("mock-vllm-capacity-2026-11-21.json")["run_s"],
        other_rate=round(on_time["tokens_per_s"], -2),
        other_streams=on_time["num_streams"],
    )
    yield claim(
        "In {num_shared} of the {num_runs} runs the server got {got.lowest:.0f} to "
        "{got.highest:.0f} % of its core and did not keep up",
        num_shared=len(shared),
        num_runs=len(runs),
        got=Spread(run["server_cpu_fraction"] for run in shared).percent(),
    )
    yield claim(
        "The {num_runs} runs had {num_broken} broken streams",
        num_runs=len(runs),
        num_broken=sum(run["num_broken"] for run in runs),
    )
