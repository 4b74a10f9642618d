"""The report of a raw result, in Markdown: one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim
from benchmarks.headline import tables
from benchmarks.headline.cells import SATURATED, SINGLE
from benchmarks.headline.comparisons import MAX_TPOT_MS, MAX_TTFT_MS, best_static
from benchmarks.headline.measured import Measured, read_measured
from benchmarks.headline.published import PUBLISHED, published_columns, why_short
from benchmarks.headline.turns import MAX_SERIAL_USERS
from paceline.foundation.results.distribution import MIN_REQUESTS_FOR_P99


def render_report(document: Mapping[str, Any], plots: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page; `plots` are (title, file name). Without a complete repeat it says so."""
    parts = [_head(document)]
    try:
        measured = read_measured(document)
    except ValueError as error:
        return "\n\n".join([*parts, f"No comparison: {error}."]) + "\n"
    parts += [_published(measured), _short_rows(measured), _quality(document)]
    parts += [f"![{title}]({file})" for title, file in plots]
    parts += [_servers(document, measured), _definitions()]
    return "\n\n".join(parts) + "\n"


def _head(document: Mapping[str, Any]) -> str:
    plan, environment = document["plan"], document["environment"]
    lines = [
        "# Headline: naive serving, llama.cpp, vLLM, static speculation and Paceline",
        "",
        *([f"**{plan['note']}**", ""] if plan["note"] else []),
        f"- SmolLM2-135M-Instruct. Drafts: {plan['draft']}, unless the server's name says another.",
        f"- Repeats: {plan['repeats']}. All servers are alive at once and answer the same requests "
        "cell by cell in turn.",
        f"- {environment['cpu_model']}, {environment['num_logical_cores']} cores, load average "
        f"{environment['load_average_1_min']:.1f} before the run; vLLM "
        f"{environment['vllm_installed']}, Paceline {environment['paceline']}; "
        f"{environment['date_utc']}; commit {environment['commit']}.",
        f"- Command: `{environment['command']}`",
        f"- Answers have at most {plan['max_tokens']} tokens. The machine costs "
        f"${plan['usd_per_hour']:g} per hour ({plan['price_source']}).",
    ]
    if document["bandwidth_bytes_per_s"]:
        rates = [f"{rate / 1e9:.1f}" for rate in document["bandwidth_bytes_per_s"].values()]
        lines.append(f"- Bandwidth of the memory by repeat: {', '.join(rates)} GB/s.")
    if document["idle"]:
        idle = document["idle"]
        cores = sum(one["cores"] for one in idle.values())
        memory = ", ".join(f"`{arm}` {one['memory_mib']:.0f}" for arm, one in idle.items())
        lines.append(f"- All servers idle used {cores:.3f} cores. Memory of each, MiB: {memory}.")
    return "\n".join(lines)


def _published(measured: Measured) -> str:
    columns = published_columns(measured)
    header = ["figure", "published", "at least"]
    header += [f"`{one.arm}` (n = {measured.num_repeats})" for one in columns]
    text = (
        "The published figures come from larger models on GPUs, so only ratios are compared. Mean "
        "(lowest to highest) over the repeats. The baselines naive serving and plain vLLM serve "
        "the unquantized model; the baseline in the same layout serves the same weights."
    )
    rows = _table(header, tables.published_rows(measured))
    return f"## Against published figures\n\n{text}\n\n{rows}"


def _short_rows(measured: Measured) -> str:
    """Why rows fall short, and what would close the gap."""
    lines = []
    for row in PUBLISHED:
        short = [
            column
            for column in published_columns(measured)
            if tables.verdict(row, row.measure(column)) in tables.NOT_REACHED
        ]
        if short:
            arms = ", ".join(f"`{column.arm}`" for column in short)
            lines.append(f"- **{row.what}** ({arms}). {why_short(row, short)}")
    body = "\n".join(lines) if lines else "No measured row falls short."
    return f"## Where it falls short\n\n{body}"


def _quality(document: Mapping[str, Any]) -> str:
    """What `paceline quality` says of the quantized weights that were served."""
    lines = [
        f"- `{scheme}`: **{found['verdict']}**. {' '.join(found['reasons'])} Made by "
        f"`{found['made_by']}`, judged by `{found['judged_by']}`."
        for scheme, found in document["quality"].items()
    ]
    return "\n".join(
        [
            "## Quality after quantization",
            "",
            "Published: less than 2 % regression on the chosen benchmark, AWQ perplexity +0.5 %. "
            "`paceline quality` compares the weights with the unquantized ones:",
            "",
            *(lines or ["No server of this run quantizes."]),
        ]
    )


def _servers(document: Mapping[str, Any], measured: Measured) -> str:
    parts = [
        "## All servers",
        f"Mean (lowest to highest) of {measured.num_repeats} repeats.",
        _table(
            tables.server_header(measured),
            tables.server_rows(measured, document["plan"]["usd_per_hour"]),
        ),
        f"Ratios within a repeat. {_static_note(measured)}",
        _table(tables.ratio_header(measured), tables.ratio_rows(measured)),
    ]
    noise = list(tables.noise_rows(measured))
    if noise:
        parts += [
            "The noise of the comparison; it is never subtracted.",
            _table(tables.noise_header(measured), noise),
        ]
    return "\n\n".join([*parts, *_notes(measured)])


def _static_note(measured: Measured) -> str:
    best = best_static(measured)
    if best is None:
        return "No static length was measured."
    chosen = f"The best static length by repeat is {', '.join(f'`{arm}`' for arm in best.chosen)}"
    if best.is_cross_fitted:
        return f"{chosen}, each chosen on the other repeats."
    return f"{chosen}. **One repeat only: it is chosen on the data it is scored on.**"


def _notes(measured: Measured) -> list[str]:
    """Failed requests, answers of unequal length, and percentiles of few requests."""
    notes = []
    totals = {
        arm: [one for cell in measured.cells for one in measured.counts.get((arm, cell), ())]
        for arm in measured.arms
    }
    errors = {arm: sum(one.num_errors for one in counts) for arm, counts in totals.items()}
    if any(errors.values()):
        failed = ", ".join(f"`{arm}` {number}" for arm, number in errors.items() if number)
        notes.append(f"**Failed requests, in no figure: {failed}.**")
    lengths = ", ".join(
        f"`{arm}` {sum(c.output_tokens for c in counts) / sum(c.num_requests for c in counts):.1f}"
        for arm, counts in totals.items()
        if counts
    )
    notes.append(f"Output tokens per answer, over all cells: {lengths}.")
    if SATURATED in measured.cells:
        saturated = [one for arm in measured.arms for one in measured.counts[arm, SATURATED]]
        fewest = min(one.num_requests for one in saturated)
        if fewest < MIN_REQUESTS_FOR_P99:
            notes.append(
                f"P99 comes from {fewest} requests per repeat; with fewer than "
                f"{MIN_REQUESTS_FOR_P99} it is little more than the slowest request."
            )
    return notes


def _definitions() -> str:
    return (
        "## Definitions\n\n"
        "- Latencies count from the scheduled time of a request. Per output token: the time from "
        "the first token to the end of the answer / (output tokens - 1), for each request.\n"
        "- Rates are those of a closed loop: answers or tokens over the time from the first "
        "request to the end of the last answer of each slice.\n"
        "- Users: the most requests in flight, of the measured levels, with a median time to "
        f"first token of at most {MAX_TTFT_MS:g} ms and a median per output token of at most "
        f"{MAX_TPOT_MS:g} ms.\n"
        "- Price: the machine's price per hour over the output tokens of an hour in "
        f"`{SATURATED}`; prompts are free.\n"
        f"- Limit: the bandwidth of the memory over the bytes of the weights, which every token "
        f"reads once without drafts; its share is that of the rate in `{SINGLE}`. A server that "
        "drafts may exceed it.\n"
        "- A dash: the server answers one request at a time, and is measured only with chats of up "
        f"to {MAX_SERIAL_USERS} users.\n"
        "- Verdicts: *reached* if every repeat reaches the published ratio, *short* if none does."
    )


def _table(header: Sequence[str], rows: Iterable[Claim]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(row.render() for row in rows)])
