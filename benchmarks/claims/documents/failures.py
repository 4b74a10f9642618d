"""The claims of docs/experiments/failures.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/failures.md"
NOT_MEASURED = {
    "setting": (
        "vLLM 0.32 replicas",
        "served 64 streams at all times",
        "kills 1.05 s apart",
        "10,000 clients of a gateway",
        "beyond the 1.5 s that this gateway",
    ),
    "target": ("target 99.9 %", "targets: 100 ms at p99, 1 s at most", "target 1 MiB"),
    "observed": ("with kills every 0.7 s, 7 of 5,224 streams",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from _killed_engines(read("chaos-real-2026-11-21.json"))
    yield from _killed_mock_replicas(read("soak-kills-2026-11-21.json"))
    yield from _disconnects(read("soak-disconnects-2026-11-21.json"))
    yield from _memory(read("soak-memory-2026-11-21.json"))
    yield from _bad_input(read)


def _killed_engines(result: Mapping[str, Any]) -> Iterator[Claim]:
    summary = result["summary"]
    yield claim("got {num_kills} SIGKILLs", **summary)
    yield claim("| requests | {num_requests:,} |", **summary)
    yield claim(
        "duplicated tokens | {num_lost_before_first_token}, {num_silent_truncations}, "
        "{num_faults} |",
        **summary,
        num_faults=len(result["faults"]),
    )
    yield claim(
        "**{num_eligible_streams_completed:,} of {num_eligible_streams:,}** (target 99.9 %), among "
        "them the {num_eligible_streams_struck} whose replica was killed",
        **summary,
    )
    ineligible = summary["endings"]["chat with logprobs, struck"]
    yield claim(
        "| {num_struck}, of which {error_event} ended with an explicit error |",
        num_struck=sum(ineligible.values()),
        **ineligible,
    )
    yield claim(
        "longest pause of a continued stream | {longest_silence_of_struck_s:.1f} s |", **summary
    )
    largest, smallest = sorted((one["gap_nats"] for one in result["differences"]), reverse=True)
    yield claim(
        "log probabilities are {largest:.2f} and {smallest:.0f} nats apart",
        largest=largest,
        smallest=smallest,
    )


def _killed_mock_replicas(result: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim(
        "**{completed:,} of {num_streams:,}** streams with known answers completed, "
        "{num_streams_of_several_replicas:,} of them on several replicas, with "
        "{num_silent_truncations} silent truncations, {num_faults} duplicated tokens and "
        "{num_leases_left} leases left",
        **result,
        completed=result["endings"]["completed"],
    )
    yield claim("The longest pause was {longest_silence_s:.1f} s", **result)


def _disconnects(result: Mapping[str, Any]) -> Iterator[Claim]:
    delay_ms = {name: 1000 * value for name, value in result["abort_delay_s"].items()}
    yield claim(
        "{aborted:,} requests had reached a replica, and all of them were aborted there: in "
        "{p50:.1f} ms at the median, **{p99:.0f} ms** at p99 and {max:.0f} ms at most",
        aborted=result["endings"]["aborted"],
        **delay_ms,
    )
    yield claim(
        "were back at {left:.0f}",
        left=max(value for load in result["loads_left"] for value in load),
    )


def _memory(result: Mapping[str, Any]) -> Iterator[Claim]:
    used_mb = {one["num_requests"]: one["rss_bytes"] / 1e6 for one in result["samples"]}
    yield claim("The gateway served {num_requests:,} requests", **result)
    yield claim(
        "It used {first:.0f} MB after {warm_up:,} requests, {early:.1f} MB after {soon:,}, "
        "{middle:.1f} MB after {half:,} and {last:.1f} MB at the end: after warm-up "
        "**{growth:.2f} MB per {step:,}** requests",
        warm_up=20_000,
        soon=100_000,
        half=500_000,
        step=100_000,
        first=used_mb[20_000],
        early=used_mb[100_000],
        middle=used_mb[500_000],
        last=used_mb[1_000_000],
        growth=result["growth"]["rss_bytes_per_100k"] / 1e6,
    )
    yield claim(
        "{timed_out} requests got a {status}", timed_out=result["answers"]["504"], status="504"
    )


def _bad_input(read: ReadResult) -> Iterator[Claim]:
    own = read("fuzz-2026-11-21.json")
    generated = read("fuzz-schemathesis-2026-11-21.json")["schemathesis"]
    yield claim(
        "The gateway got {own:,} requests generated from one seed, and {generated:,} valid",
        own=own["cases"],
        generated=generated["cases"],
    )
