"""The claims of docs/experiments/failures.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/failures.md"
_MIB = 1024 * 1024
_CONTINUED = ("greedy", "sampled")
"""Kinds of streams that another replica can continue."""
NOT_MEASURED = {
    "setting": (
        "vLLM 0.32 replicas",
        "under 64 streams of every kind",
        "served 64 streams at all times",
        "kills 1.05 s apart",
        "10,000 clients of a gateway",
        "each just below 8 MiB",
        "with one token per 10 ms",
        "refused with a 503",
        "left 25 s after",
    ),
    "target": (
        "target 99.9 %",
        "targets: 100 ms at p99, 1 s at most",
        "target 1 MiB",
        "(target 50 ms)",
        "(target 512 MiB)",
        "(target 64 MiB)",
        "target 100 ms",
    ),
    "observed": (
        "with kills every 0.7 s, 7 of 5,224 streams",
        "grew by 0.04 MB per 100,000",
    ),
    "limit": ("sent 16 tokens", "sent nothing for 4 s"),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for name in (
        "chaos-real-kills-2026-11-23.json",
        "chaos-real-kills-2026-11-23-3.json",
        "chaos-real-hangs-2026-11-23-2.json",
    ):
        yield from _failed_engines(read(name))
    yield from _kinds_of_engines(
        read("chaos-real-kills-2026-11-23-3.json"), read("chaos-real-hangs-2026-11-23-2.json")
    )
    yield from _killed_engines(read("chaos-real-2026-11-21.json"))
    yield from _killed_mock_replicas(read("soak-kills-2026-11-21.json"))
    yield from _all_kinds(
        read("soak-kills-2026-11-23-7.json"), read("soak-hangs-2026-11-23-4.json")
    )
    for name, signal in (
        ("soak-kills-2026-11-23.json", "SIGKILLs"),
        ("soak-hangs-2026-11-23.json", "SIGSTOPs"),
        ("soak-hangs-2026-11-23-2.json", "SIGSTOPs, after the fix"),
        ("soak-kills-2026-11-23-3.json", "SIGKILLs"),
        ("soak-kills-2026-11-23-5.json", "SIGKILLs, after the fix"),
    ):
        yield from _mixed_faults(read(name), signal)
    faster, fastest = (
        result["duration_s"] / result["num_faults_injected"]
        for result in (read("soak-kills-2026-11-23-3.json"), read("soak-kills-2026-11-23-5.json"))
    )
    yield claim("kills came {faster:.1f} and {fastest:.1f} s apart", faster=faster, fastest=fastest)
    beyond = sum(
        kind["num_beyond_limit"] for kind in read("soak-kills-2026-11-23-7.json")["kinds"].values()
    )
    yield claim("that lost more replicas apart ({beyond} in the table)", beyond=beyond or "none")
    yield from _decorated(read("soak-kills-2026-11-29.json"))
    yield from _overloaded(
        read("soak-kills-2026-11-29-2.json"), read("soak-hangs-2026-11-29-2.json")
    )
    yield from _afterwards(read("soak-hangs-2026-11-29-3.json"))
    yield from _disconnects(read("soak-disconnects-2026-11-21.json"))
    yield from _memory(read("soak-memory-2026-11-23.json"))
    yield from _budget(read("byte-budget-2026-11-23-3.json"))
    earlier = read("byte-budget-2026-11-23.json")["loads"]["bodies"]
    now_ms = read("byte-budget-2026-11-23-3.json")["loads"]["bodies"]["refusals_ms"]["p99"]
    yield claim(
        "An earlier run had {p99:.0f} ms where this one has {now_ms:.0f}",
        **earlier["refusals_ms"],
        now_ms=now_ms,
    )
    yield from _pauses(read("body-pauses-2026-11-23-2.json"))
    yield from _bad_input(read)


def num_continued(result: Mapping[str, Any], key: str) -> int:
    """This number over all kinds of streams that are continued, of a result of `soak_kills.py`."""
    kinds = result["total"]["kinds"].items()
    return sum(kind[key] for name, kind in kinds if name.startswith(_CONTINUED))


def _decorated(result: Mapping[str, Any]) -> Iterator[Claim]:
    total = result["total"]
    yield claim("| {num_faults_injected} SIGKILLs | |", **total)
    yield claim("| requests of the first tenant | {num_streams:,} |", **total)
    yield claim("that had them were killed | {num_lost_before_first_token} |", **total)
    yield claim("lost or doubled | {num_silent_truncations}, {num_errors} |", **total)
    for text, key in (
        ("streams whose replica was killed | {number:,} |", "num_interrupted"),
        ("completed on another replica | {number:,} |", "num_interrupted_completed"),
        ("two replicas were killed under them | {number:,} |", "num_beyond_limit"),
    ):
        yield claim(text, number=num_continued(result, key))
    yield claim("got a complete answer | {num_poison_requests:,} |", **total)


def _overloaded(kills: Mapping[str, Any], hangs: Mapping[str, Any]) -> Iterator[Claim]:
    for result, signal in ((kills, "SIGKILLs"), (hangs, "SIGSTOPs")):
        yield claim(
            f"Under {{num_faults_injected}} {signal}, {{num_lost_before_first_token}} of "
            "{num_streams:,}",
            **result["total"],
        )
    yield claim("{num_errors} ended in a way that no fault explains", **hangs["total"])
    stayed = next(text for text in hangs["total"]["failures"] if text.endswith("in service"))
    yield claim("**{num} of the stopped replicas kept", num=stayed.split()[0])


def _afterwards(hangs: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim("{num_faults_injected} SIGSTOPs afterwards", **hangs["total"])
    yield claim("no error in {num_streams:,} requests", **hangs["total"])


def num_ended_with_an_error(total: Mapping[str, Any]) -> int:
    """Streams of all kinds that a run with real engines ended with an error event."""
    return sum(kind["num_error_events"] for kind in total["kinds"].values())


def _failed_engines(result: Mapping[str, Any]) -> Iterator[Claim]:
    total = result["total"]
    num_lost = total["num_eligible_streams"] - total["num_eligible_streams_completed"]
    bold = "**" if num_lost else ""
    yield claim(
        f"| {{num_faults_injected}} | {{num_requests:,}} "
        f"| {{num_eligible_streams:,}} | {bold}{{num_eligible_streams_completed:,}}{bold} "
        "| {num_eligible_streams_struck_completed} of {num_eligible_streams_struck} "
        "| {longest_silence_of_struck_s:.1f} s | {num_others} |",
        num_others=num_ended_with_an_error(total) - num_lost,
        **total,
    )
    if num_lost:
        yield claim("In the first run, {num_lost} long chats", num_lost=num_lost)


def _kinds_of_engines(kills: Mapping[str, Any], hangs: Mapping[str, Any]) -> Iterator[Claim]:
    for kind, killed in kills["total"]["kinds"].items():
        stopped = hangs["total"]["kinds"][kind]
        cells = " | ".join(
            f"{{{fault}[{key}]}}"
            for fault in ("killed", "stopped")
            for key in ("num_begun_anew", "num_interrupted", "num_interrupted_completed")
        )
        yield claim(f"| {kind} | {cells} |", killed=killed, stopped=stopped)


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


_KINDS = (
    "greedy", "greedy, read slowly", "sampled", "sampled, read slowly",
    "responses", "tools", "JSON schema",
)  # fmt: skip
"""The rows of the table. Slow readers are a row of their own where streams can be continued."""


def _all_kinds(kills: Mapping[str, Any], hangs: Mapping[str, Any]) -> Iterator[Claim]:
    faults = {"kills": kills, "hangs": hangs}
    for name, result in faults.items():
        signal = {"kills": "SIGKILLs", "hangs": "SIGSTOPs"}[name]
        yield claim(f"{{num_faults_injected}} {signal}: streams that lost their replica", **result)
    for kind in _KINDS:
        row = {name: _struck(result, kind) for name, result in faults.items()}
        yield claim(
            f"| {kind} | {{kills[0]}} | {{kills[1]}} | {{hangs[0]}} | {{hangs[1]}} |", **row
        )
    yield claim(
        "({begun} requests lost a killed replica before it, and began anew",
        begun=sum(found["num_begun_anew"] for found in kills["kinds"].values()),
    )
    yield claim(
        "The mock replicas are killed {every_s:.1f} s apart in the mean",
        every_s=kills["duration_s"] / kills["num_faults_injected"],
    )


def _struck(result: Mapping[str, Any], kind: str) -> tuple[int, str]:
    """Streams of this kind that lost their replica, and those of them that completed."""
    can_continue = kind.startswith(_CONTINUED)
    names = [kind] if can_continue else [kind, f"{kind}, read slowly"]
    found = [result["kinds"][name] for name in names]
    num_struck = sum(one["num_interrupted"] for one in found)
    num_completed = sum(one["num_interrupted_completed"] for one in found)
    bold = "**" if can_continue and num_completed < num_struck else ""
    return num_struck, f"{bold}{num_completed}{bold}"


def _mixed_faults(result: Mapping[str, Any], signal: str) -> Iterator[Claim]:
    kinds = [found for name, found in result["kinds"].items() if name.startswith(_CONTINUED)]
    total = {
        key: sum(kind[key] for kind in kinds)
        for key in ("num_streams", "num_completed", "num_interrupted", "num_interrupted_completed")
    }
    bold = "**" if total["num_completed"] < total["num_streams"] else ""
    yield claim(f"| {{num_faults_injected}} {signal} (`", **result)
    yield claim(
        f"| {{num_streams:,}} | {bold}{{num_completed:,}}{bold} | {{num_interrupted_completed}} of "
        "{num_interrupted} |",
        **total,
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
        "{refused:,} requests got a {status}", refused=result["answers"]["503"], status="503"
    )


def _budget(result: Mapping[str, Any]) -> Iterator[Claim]:
    settings = result["settings"]
    yield claim(
        "A gateway with a budget of {budget:.0f} MiB",
        budget=settings["budget_bytes"] / _MIB,
    )
    yield claim("gets {clients:,} bodies", **settings)
    yield claim("{clients:,} clients that read", **settings)
    yield claim(
        "bodies of {body:.0f} MiB, {rate:.0f} clients per second",
        body=settings["body_bytes"] / _MIB,
        rate=settings["clients_per_s"],
    )
    loads = {name: _load_figures(load) for name, load in result["loads"].items()}
    for row in (
        "| served | {bodies[served]} | | {both[served]} |",
        "| refused with a 503 | {bodies[refused]} | | {both[refused]} |",
        "| refused within, 99th percentile (target 50 ms) | {bodies[p99_ms]:.0f} ms | "
        "| {both[p99_ms]:.0f} ms |",
        *(
            f"| {head} | {{bodies[{key}]:.0f}} MiB | {{readers[{key}]:.0f}} MiB "
            f"| {{both[{key}]:.0f}} MiB |"
            for head, key in (
                ("memory before", "before"),
                ("highest, above that (target 512 MiB)", "peak"),
                ("left 25 s after the load, above that (target 64 MiB)", "after"),
            )
        ),
    ):
        yield claim(row, **loads)


def _load_figures(load: Mapping[str, Any]) -> dict[str, Any]:
    before = load["before_bytes"]
    return {
        "served": load["statuses"].get("200"),
        "refused": load["statuses"].get("503"),
        "p99_ms": load["refusals_ms"]["p99"],
        "before": before / _MIB,
        "peak": (load["peak_bytes"] - before) / _MIB,
        "after": (load["after_bytes"] - before) / _MIB,
    }


def _pauses(result: Mapping[str, Any]) -> Iterator[Claim]:
    pauses = result["pauses"]
    worst = max(pauses, key=lambda one: max(one["longest_ms"]))
    yield claim(
        "is **{longest:.0f} ms** (`{kind}`, in one",
        longest=max(worst["longest_ms"]),
        kind=worst["bodies"],
    )
    yield claim(
        "of {num_rounds} rounds of {num_kinds} kinds",
        num_rounds=len(worst["longest_ms"]),
        num_kinds=len(pauses),
    )
    yield claim(
        "it is {control:.0f} ms",
        control=max(max(one["control_longest_ms"]) for one in pauses),
    )


def _bad_input(read: ReadResult) -> Iterator[Claim]:
    own = read("fuzz-2026-11-21.json")
    generated = read("fuzz-schemathesis-2026-11-21.json")["schemathesis"]
    yield claim(
        "The gateway got {own:,} requests generated from one seed, and {generated:,} valid",
        own=own["cases"],
        generated=generated["cases"],
    )
