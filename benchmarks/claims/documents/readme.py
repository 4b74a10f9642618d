"""The claims of README.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents.gateway import added_ms
from benchmarks.claims.documents.shifting_trace import (
    INTERLEAVED,
    INTERLEAVED_AGAIN,
    NGRAM_INTEL,
    TWIN_AMD,
    TWIN_INTEL,
    trace_figures,
)
from benchmarks.claims.readers import interleaved_figures

DOCUMENT = "README.md"
NOT_MEASURED = {
    "setting": ("with 1 to 32 concurrent requests", "At 256 streams"),
}
SERVED = (TWIN_AMD, TWIN_INTEL, NGRAM_INTEL)


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    trace = interleaved_figures(read(INTERLEAVED))
    yield claim("| | draft model, two Intel cores (n = {n}) |", **trace)
    for head, figure, spec, bold in (
        ("the best fixed draft length *of each phase* (fraction reached)", "oracle", ".1f", ""),
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
    again = interleaved_figures(read(INTERLEAVED_AGAIN))
    yield claim(
        "reached {oracle.mean:.1f} % ({oracle.lowest:.1f} to {oracle.highest:.1f}), worst phase "
        "{worst.mean:.0f} %",
        **again,
    )
    served = [trace_figures(read(name))["floor"].mean for name in SERVED]
    yield claim(
        "eight concurrent requests of hard text, lost {least:.0f} to {most:.0f} %",
        least=-max(served),
        most=-min(served),
    )
    summary = read("chaos-real-2026-11-21.json")["summary"]
    yield claim(
        "real engines received {num_kills} SIGKILLs, none of {num_requests:,} requests was lost "
        "before its first token, and {num_eligible_streams_completed:,} of "
        "{num_eligible_streams:,} eligible streams",
        **summary,
    )
    latency = read("gateway-added-latency-2026-11-21.json.gz")
    own, litellm, router = (
        added_ms(latency, "256", "ttft_ms", "p99", arm)
        for arm in ("paceline", "litellm", "vllm-router")
    )
    yield claim(
        "the gateway adds {own.median:.1f} ms ({own.lowest:.1f} to {own.highest:.1f}, n = {own.n}) "
        "to the P99 time to first token; in the same run LiteLLM adds {litellm.median:.0f} ms "
        "({litellm.lowest:.0f} to {litellm.highest:.0f}) and vllm-router, written in Rust, "
        "{router.median:.1f} ms ({router.lowest:.1f} to {router.highest:.1f})",
        own=own,
        litellm=litellm,
        router=router,
    )
