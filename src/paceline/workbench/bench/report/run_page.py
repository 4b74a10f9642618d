"""The report of one run: a summary in plain words, the figures, how they were measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paceline.foundation.results import elements
from paceline.foundation.results.text import duration_ms, moment, number, percent, plural
from paceline.workbench.bench.report.plots import Bar, BarGroup, Series, bar_groups, time_plot

_LATENCIES = {
    "ttft_ms": "Time to first token",
    "tpot_ms": "Time per output token",
    "inter_chunk_ms": "Time between chunks",
    "e2e_ms": "Whole request",
}
_DEFINITIONS = {
    "Time to first token": "From the moment a request was due to its first text.",
    "Time per output token": "Time after the first token, divided by the further tokens.",
    "Time between chunks": "Between two pieces of text of one answer. With speculation a piece "
    "holds several tokens, so this is not the time per token.",
    "Whole request": "From the moment a request was due to the end of its answer.",
    "Dispatch delay": "From the moment a request was due until the load generator sent it. It is "
    "part of the other times; a long one means that the load generator was too slow.",
    "p50, p90, p99": "Half, nine of ten, and 99 of 100 requests were at least this fast.",
    "95 % interval": "Where the true value of a percentile lies with 95 % certainty, as far as the "
    "spread between requests goes; it does not cover differences between runs.",
}
_DEFINITIONS_OF_PHASES = {
    "Adaptation lag": "From the beginning of a phase until the output tokens/s stay near their "
    "level in its second half, as the mean of the repeats; unknown if the phase is too short.",
}
_CONFIG = {
    "url": "server",
    "model": "model",
    "workload": "workload",
    "prompts_file": "prompts of your own",
    "temperature": "temperature",
    "concurrency": "requests in flight (closed loop)",
    "rate_per_s": "requests per second (open loop)",
    "num_requests": "number of requests",
    "duration_s": "duration in s",
    "max_tokens": "most tokens per answer",
    "num_warmup": "warm-up requests",
    "seed": "seed",
}


def title(document: Mapping[str, Any]) -> str:
    return f"Benchmark of {document['config'].get('model') or 'a server'}"


def subtitle(document: Mapping[str, Any]) -> str:
    return f"{document['config']['url']}, {moment(document['environment']['date_utc'])}"


def sections(document: Mapping[str, Any]) -> Iterator[str]:
    """The sections of the page in order."""
    summary = document["summary"]
    yield elements.section(
        "In short",
        *(elements.paragraph(sentence, "lead") for sentence in summary_sentences(document)),
    )
    if document["notes"]:
        yield warnings(document["notes"])
    yield elements.section(
        "Figures",
        elements.cards(_cards(document)),
        *_latency_plot(summary),
        *_series_plot(document),
    )
    yield elements.section(
        "All figures",
        _latency_table(summary),
        *_few_samples(summary),
        *_phases(document),
        *_tasks(summary),
    )
    yield elements.section(
        "How it was measured",
        elements.paragraph(
            "A load generator sent requests to the server and timed the answers as a client sees "
            "them. Times count from the moment a request was due, so waiting is included."
        ),
        elements.definitions(
            {**_DEFINITIONS, **(_DEFINITIONS_OF_PHASES if document.get("phases") else {})}
        ),
        elements.properties(document["config"], _CONFIG),
    )
    yield elements.section("Machine and versions", elements.environment(document["environment"]))


def warnings(notes: list[str]) -> str:
    """A box with the notes on validity."""
    box = f'<div class="warnings">{elements.bullets(notes)}</div>'
    return elements.section("Read this first", box)


def summary_sentences(document: Mapping[str, Any]) -> Iterator[str]:
    """What a reader must know, without abbreviations."""
    summary, config = document["summary"], document["config"]
    if not _is_valid(document):
        yield "This run is not valid; the notes say why. Do not use its figures."
    if summary["output_tokens_per_s"] is not None:
        yield (
            f"The server produced {number(summary['output_tokens_per_s'])} output tokens per "
            f"second {_load(config)}."
        )
    ttft, tpot = summary["ttft_ms"], summary["tpot_ms"]
    if ttft["p50"] is not None:
        yield (
            f"Half of the requests got their first token within {duration_ms(ttft['p50'])}, nine "
            f"of ten within {duration_ms(ttft['p90'])}."
        )
    if tpot["p50"] is not None:
        yield f"After that, a typical answer grew by one token every {duration_ms(tpot['p50'])}."
    # What the answers show is of this run alone; the server's counters may hold other clients.
    own, counted = summary.get("acceptance"), document.get("speculation") or {}
    acceptance = own or counted
    if acceptance.get("acceptance_rate") is not None:
        text = f"Of the tokens that the drafter proposed, {percent(acceptance['acceptance_rate'])}"
        length = acceptance.get("acceptance_length")
        yield f"{text} were accepted" + (
            f": a step of the model yielded {number(length)} tokens on average." if length else "."
        )
        warnings = document.get("warnings") or ()
        if own is None and any(warning["id"] == "other_traffic" for warning in warnings):
            yield "These drafts are those of all clients of the server, not of this run alone."
    goodput = summary.get("goodput")
    if goodput and goodput["attained_fraction"] is not None:
        low, high = goodput["attained_fraction_ci95"]
        yield (
            f"{percent(goodput['attained_fraction'])} of the requests met the objective "
            f"({_slo_text(goodput['slo'])}); with 95 % certainty {percent(low)} to {percent(high)}."
        )
    num_errors, num_requests = summary["num_errors"], summary["num_requests"]
    yield (
        f"{num_errors} of {plural(num_requests, 'request')} failed."
        if num_errors
        else f"All {plural(num_requests, 'request')} succeeded."
    )


def _is_valid(document: Mapping[str, Any]) -> bool:
    """Earlier documents of this version have the verdict in their summary."""
    return bool(document.get("valid", document["summary"].get("is_valid", True)))


def _slo_text(slo: Mapping[str, float | None]) -> str:
    names = {"ttft_ms": "first token", "tpot_ms": "further tokens", "e2e_ms": "whole request"}
    return ", ".join(
        f"{name} within {duration_ms(slo[key])}"
        for key, name in names.items()
        if slo.get(key) is not None
    )


def _load(config: Mapping[str, Any]) -> str:
    if config.get("rate_per_s") is not None:
        return f"while {number(config['rate_per_s'])} requests per second arrived"
    if config.get("concurrency") is not None:
        return f"with {plural(config['concurrency'], 'request')} in flight at a time"
    return "under the load described below"


def _cards(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    summary = document["summary"]
    yield "Output", number(summary["output_tokens_per_s"]), "tokens/s"
    yield "Answered", number(summary["requests_per_s"]), "requests/s"
    yield "First token, median", *_split(duration_ms(summary["ttft_ms"]["p50"]))
    yield "Each further token, median", *_split(duration_ms(summary["tpot_ms"]["p50"]))


def _split(text: str) -> tuple[str, str]:
    value, _, unit = text.partition(" ")
    return value, unit


def _latency_plot(summary: Mapping[str, Any]) -> Iterator[str]:
    groups = []
    for key, name in _LATENCIES.items():
        distribution = summary.get(key) or {}
        bars = []
        for percentile in ("p50", "p90", "p99"):
            value = distribution.get(percentile)
            if value is not None:
                low, high = distribution.get(f"{percentile}_ci95") or (None, None)
                bars.append(Bar(percentile, value, duration_ms(value), low, high))
        if bars:
            groups.append(BarGroup(name, bars))
    if groups:
        yield elements.figure(
            bar_groups(groups, "Latencies: percentiles of each quantity"),
            "Percentiles of the latencies. Every group has its own scale. Lines with ends: 95 % "
            "intervals, where there are enough samples.",
        )


def _series_plot(document: Mapping[str, Any]) -> Iterator[str]:
    """Output tokens/s over time, one line per repeat."""
    repeats = document.get("series") or []
    colours = ("a", "b", "aa")
    lines = [
        Series(
            f"repeat {number + 1}" if len(repeats) > 1 else "output tokens/s",
            colours[number % len(colours)],
            [
                ((i + 0.5) * one["bucket_s"], rate)
                for i, rate in enumerate(one["output_tokens_per_s"])
            ],
            is_line=True,
        )
        for number, one in enumerate(repeats[: len(colours)])
        if one["output_tokens_per_s"]
    ]
    if lines:
        yield elements.figure(
            time_plot(
                lines, "time in s", "output tokens/s", "Output tokens/s over time", with_zero=True
            ),
            "Output tokens per second over the time of the run."
            + (f" The first {len(lines)} of {len(repeats)} repeats." * (len(lines) < len(repeats))),
        )


def _few_samples(summary: Mapping[str, Any]) -> Iterator[str]:
    note = summary["ttft_ms"].get("note")
    if note:
        yield elements.paragraph(f"{note}.", "quiet")


def _phases(document: Mapping[str, Any]) -> Iterator[str]:
    """One row per phase of a load that shifts."""
    phases = document.get("phases") or []
    rows = []
    for phase in phases:
        summary = phase["summary"]
        lags = [one["lag_s"] for one in phase.get("adaptation") or [] if one["lag_s"] is not None]
        rows.append(
            [
                phase["name"],
                phase["load"],
                number(summary["output_tokens_per_s"]),
                number(summary["ttft_ms"]["p50"]),
                number(summary["tpot_ms"]["p50"]),
                number(sum(lags) / len(lags)) if lags else "unknown",
            ]
        )
    if rows:
        heads = ["phase", "load", "output tokens/s", "time to first token, p50, ms"]
        yield elements.table([*heads, "time per output token, p50, ms", "adaptation lag, s"], rows)


def _latency_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for key, name in (*_LATENCIES.items(), ("dispatch_delay_ms", "Dispatch delay")):
        distribution = summary.get(key)
        if distribution:
            figures = (distribution[k] for k in ("mean", "p50", "p90", "p99", "max"))
            rows.append([name, *(number(f) for f in figures), f"{distribution['num_samples']:,}"])
    return elements.table(["in ms", "mean", "p50", "p90", "p99", "max", "samples"], rows)


def _tasks(summary: Mapping[str, Any]) -> Iterator[str]:
    tasks = summary.get("by_task") or {}
    if len(tasks) < 2:
        return
    rows = [
        [
            name,
            f"{task['num_requests']:,}",
            f"{task['num_errors']:,}",
            f"{task['output_tokens']:,}",
            number(task["ttft_ms"]["p50"]),
            number(task["tpot_ms"]["p50"]),
        ]
        for name, task in tasks.items()
    ]
    heads = ["task", "requests", "failed", "output tokens"]
    yield elements.table(
        [*heads, "time to first token, p50, ms", "time per output token, p50, ms"], rows
    )
