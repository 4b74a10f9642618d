"""The claims of docs/experiments/gateway.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread
from benchmarks.gateway.latency_report import MIN_REQUESTS_FOR_P99, is_saturated
from benchmarks.gateway.records import percentiles

DOCUMENT = "docs/experiments/gateway.md"
NOT_MEASURED = {
    "target": ("≤ 5 ms", "≤ 2 ms", "≥ 90 % of the peak"),
    "observed": (
        "about 2.3 ms per request and 0.18 ms per chunk",
        "the two TTFT figures were 5.1 and 18 ms",
    ),
    "setting": (
        "the default queue wait of 10 s",
        "all repeats together have 1,000 requests",
    ),
}

_CLIENT_PACKAGES = {
    "openai-python": "openai",
    "LangChain": "langchain-openai",
    "litellm's SDK": "litellm",
    "openai-node": "npm:openai",
    "Vercel's AI SDK": "npm:ai",
    "Pydantic AI": "pydantic-ai-slim",
    "Haystack": "haystack-ai",
    "smolagents": "smolagents",
    "Agno": "agno",
    "Microsoft's Agent Framework": "agent-framework-openai",
    "OpenAI's Agents SDK": "openai-agents",
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from _added_latency(read("gateway-added-latency-2026-11-21.json.gz"))
    yield from _overload(read("gateway-overload-2026-11-22.json"))
    yield from _clients(read("client-sessions-2026-11-22.json"))


def added_ms(result: Mapping[str, Any], level: str, measure: str, name: str, arm: str) -> Spread:
    """Milliseconds that the arm adds to this percentile, one value per repeat."""
    (runs,) = (one["runs"] for one in result["levels"] if one["level"]["name"] == level)
    by_key = {(run["arm"], run["repeat"]): run[measure][name] for run in runs}
    repeats = sorted({run["repeat"] for run in runs})
    return Spread(by_key[arm, repeat] - by_key["direct", repeat] for repeat in repeats)


def added_p99_of_all_ms(result: Mapping[str, Any], level: str, arm: str) -> float:
    """Milliseconds that the arm adds to the p99 of the TTFT of all repeats together."""
    (runs,) = (one["runs"] for one in result["levels"] if one["level"]["name"] == level)
    own, direct = (
        [value for run in runs if run["arm"] == name for value in run["ttfts_ms"]]
        for name in (arm, "direct")
    )
    if min(len(own), len(direct)) < MIN_REQUESTS_FOR_P99:
        raise ValueError(f"{len(own)} requests of {arm} at level {level} are too few for a p99")
    return percentiles(own)["p99"] - percentiles(direct)["p99"]


def num_requests(result: Mapping[str, Any], level: str, arm: str) -> int:
    """Requests of the arm with a first token, over all repeats."""
    (runs,) = (one["runs"] for one in result["levels"] if one["level"]["name"] == level)
    return sum(run["num_with_first_token"] for run in runs if run["arm"] == arm)


def _added_latency(result: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim("LiteLLM {litellm} (one worker)", **result["versions"])
    yield claim("vllm-router {router} (Rust)", router=result["versions"]["vllm-router"])
    for one in result["levels"]:
        yield from _added_at(result, one)
    yield claim(
        "| TTFT p99, all {num:,} requests | {own:.1f} | saturated | {router:.1f} | {again:.1f} |",
        num=num_requests(result, "256-brisk", "paceline"),
        own=added_p99_of_all_ms(result, "256-brisk", "paceline"),
        router=added_p99_of_all_ms(result, "256-brisk", "vllm-router"),
        again=added_p99_of_all_ms(result, "256-brisk", "direct again"),
    )
    yield claim(
        "At the other loads this run had {one}, {few} and {many} through Paceline",
        one=num_requests(result, "1", "paceline"),
        few=num_requests(result, "32", "paceline"),
        many=num_requests(result, "256", "paceline"),
    )
    (brisk,) = (one["runs"] for one in result["levels"] if one["level"]["name"] == "256-brisk")
    yield claim(
        "LiteLLM uses {cores.median:.2f} cores at the last load",
        cores=Spread(run["cores"]["gateway"] for run in brisk if run["arm"] == "litellm"),
    )
    shapes = {one["level"]["name"]: one["level"] for one in result["levels"]}
    yield claim(
        "| added TTFT p99, {num_streams} streams | ≤ 5 ms | {own:.1f} ms at {fast:,.0f} chunks/s |",
        num_streams=shapes["256-brisk"]["num_streams"],
        own=added_p99_of_all_ms(result, "256-brisk", "paceline"),
        fast=_chunks_per_s(shapes["256-brisk"]),
    )
    own, other = (added_ms(result, "256", "ttft_ms", "p90", arm) for arm in ("paceline", "litellm"))
    yield claim(
        "| added TTFT p90 against LiteLLM, {num_streams} streams, {slow:,.0f} chunks/s | ≤ half "
        "| {percent:.0f} % |",
        num_streams=shapes["256"]["num_streams"],
        slow=_chunks_per_s(shapes["256"]),
        percent=100 * own.median / other.median,
    )
    between = [
        added_ms(result, name, "inter_chunk_ms", "p99", "paceline").median for name in shapes
    ]
    yield claim(
        "| added between chunks p99 | ≤ 2 ms | {least:.1f} to {most:.1f} ms, by load |",
        least=min(between),
        most=max(between),
    )


def _added_at(result: Mapping[str, Any], one: Mapping[str, Any]) -> Iterator[Claim]:
    """The three rows of one level."""
    shape = one["level"]
    streams = "one stream" if shape["num_streams"] == 1 else "{num_streams} streams"
    for measure, name, head in (
        ("ttft_ms", "p50", f"{streams}, {{chunks_per_s:,.0f}} chunks/s: TTFT p50"),
        ("ttft_ms", "p90", "TTFT p90"),
        ("inter_chunk_ms", "p99", "between chunks p99"),
    ):
        other = "saturated" if is_saturated("litellm", one["runs"]) else _cell("litellm", ",.0f")
        yield claim(
            f"| {head} | {_cell('own', 'z.1f')} | {other} "
            f"| {_cell('router', 'z.1f')} | {_cell('again', 'z.1f')} |",
            num_streams=shape["num_streams"],
            chunks_per_s=_chunks_per_s(shape),
            own=added_ms(result, shape["name"], measure, name, "paceline"),
            litellm=added_ms(result, shape["name"], measure, name, "litellm"),
            router=added_ms(result, shape["name"], measure, name, "vllm-router"),
            again=added_ms(result, shape["name"], measure, name, "direct again"),
        )


def _chunks_per_s(shape: Mapping[str, Any]) -> float:
    return float(1000 * shape["num_streams"] / shape["tpot_ms"])


def _cell(name: str, spec: str) -> str:
    return f"{{{name}.median:{spec}}} ({{{name}.lowest:{spec}}} to {{{name}.highest:{spec}}})"


def _overload(result: Mapping[str, Any]) -> Iterator[Claim]:
    replicas, slo, runs = result["replicas"], result["promise"], result["runs"]
    yield claim(
        "Two mock replicas of {max_num_seqs} slots ({capacity:.1f} requests/s in total)",
        **replicas,
        capacity=result["capacity_per_s"],
    )
    yield claim(
        "The SLO is {ttft_s:g} s to the first token and {total_s:g} s for the whole answer; "
        "`max_queue_wait_s` is {wait_s:g}. Three repeats of {seconds:g} s",
        **slo,
        wait_s=result["queue_wait_s"],
        seconds=result["seconds"],
    )

    def spread(arm: str, load: float, figure: str, name: str | None = None) -> Spread:
        own = [run[figure] for run in runs if (run["arm"], run["load"]) == (arm, load)]
        return Spread(own if name is None else (value[name] for value in own))

    loads = {run["load"] for run in runs if run["arm"] == "paceline"}
    peak = max(spread("paceline", load, "goodput_per_s").median for load in loads)
    good = spread("paceline", 3, "goodput_per_s")
    yield claim(
        "| {good.median:.1f}/s ({good.lowest:.1f} to {good.highest:.1f}), **{percent:.0f} %** of "
        "the peak |",
        good=good,
        percent=100 * good.median / peak,
    )
    for name, bold in (("p50", ""), ("p99", "**")):
        yield claim(
            f"{bold}{{ms.median:.1f}} ms{bold} ({{ms.lowest:.1f}} to {{ms.highest:.1f}})",
            ms=spread("paceline", 3, "refusal_ms", name),
        )
    patient = spread("paceline, default wait", 3, "goodput_per_s")
    yield claim(
        "| {percent.median:.0f} % of the peak ({percent.lowest:.0f} to {percent.highest:.0f}) |",
        percent=patient.map(lambda rate: 100 * rate / peak),
    )
    others = [
        *spread("vllm-router", 3, "num_good").values,
        *spread("direct", 3, "num_good").values,
    ]
    yield claim("and {num:.0f} of their answers meet the SLO", num=sum(others))


def _clients(result: Mapping[str, Any]) -> Iterator[Claim]:
    sessions = result["sessions"]
    yield claim(
        "{clients} client libraries, with {questions} questions each",
        clients=len({session["client"] for session in sessions}),
        questions=len({session["question"] for session in sessions}),
    )
    yield claim(
        "**{right} of {all} sessions**",
        right=sum(not session["faults"] for session in sessions),
        all=len(sessions),
    )
    for name, package in _CLIENT_PACKAGES.items():
        yield claim(
            f"| {name} | `{package.removeprefix('npm:')}` {{version}} |",
            version=result["versions"][package],
        )
