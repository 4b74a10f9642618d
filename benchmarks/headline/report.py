"""The report of a raw result, in Markdown: one page for all models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim
from benchmarks.headline import tables
from benchmarks.headline.cells import SATURATED
from benchmarks.headline.comparisons import MAX_TPOT_MS, MAX_TTFT_MS, best_static
from benchmarks.headline.measured import Measured
from benchmarks.headline.published import (
    PUBLISHED,
    measured_schemes,
    published_columns,
    quality_note,
    why_short,
)
from paceline.bench.results.distribution import MIN_REQUESTS_FOR_P99

_TWIN = (
    "The twin is the bundled 11M target padded to the cost of about 120M parameters with layers "
    "that add nothing to its outputs."
)


def render_report(document: Mapping[str, Any], plots: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page; `plots` are (title, file name). Without a complete repeat it says so."""
    parts = [_head(document)]
    try:
        models = tables.read_models(document)
    except ValueError as error:
        return "\n\n".join([*parts, f"No comparison: {error}."]) + "\n"
    parts += [_published(models), _short_rows(models)]
    parts += [f"![{title}]({file})" for title, file in plots]
    parts += [_model(document, measured) for measured in models]
    parts.append(_definitions())
    return "\n\n".join(parts) + "\n"


def _head(document: Mapping[str, Any]) -> str:
    plan, environment = document["plan"], document["environment"]
    lines = [
        "# Headline: naive serving, vLLM, static speculation and Paceline",
        "",
        *([f"**{plan['note']}**", ""] if plan["note"] else []),
        f"- Repeats: {plan['repeats']}; slices of a cell in each: {plan['slices']}. All servers "
        "are alive at once and answer the same requests slice by slice in turn.",
        f"- {environment['cpu_model']}, {environment['num_logical_cores']} cores, load average "
        f"{environment['load_average_1_min']:.1f} before the run; vLLM "
        f"{environment['vllm_installed']}, Paceline {environment['paceline']}; "
        f"{environment['date_utc']}; commit {environment['commit']}.",
        f"- Command: `{environment['command']}`",
        f"- Answers have at most {plan['max_tokens']} tokens. The machine costs "
        f"${plan['usd_per_hour']:g} per hour ({plan['price_source']}).",
    ]
    for model, idle in document["idle_cores"].items():
        lines.append(f"- {model}: all servers idle used {sum(idle.values()):.3f} cores.")
    if "twin" in plan["models"]:
        lines.append(f"- {_TWIN}")
    return "\n".join(lines)


def _published(models: Sequence[Measured]) -> str:
    header = ["figure", "published", "at least"]
    header += [f"{one.title} (n = {one.measured.num_repeats})" for one in published_columns(models)]
    text = (
        "The published figures come from larger models on GPUs, so only ratios are compared. Mean "
        "(lowest to highest) over the repeats."
    )
    if any(map(measured_schemes, models)):
        text += (
            " The columns with quantized weights show `paceline+SCHEME`. Its baselines `naive` and "
            "plain vLLM serve the unquantized model; its baseline in the same layout serves the "
            "same quantized weights."
        )
    rows = _table(header, tables.published_rows(models))
    also = f"Also published: {quality_note(models)}"
    return f"## Against published figures\n\n{text}\n\n{rows}\n\n{also}"


def _short_rows(models: Sequence[Measured]) -> str:
    """Why rows fall short, and what would close the gap."""
    lines = []
    for row in PUBLISHED:
        short = [
            column
            for column in published_columns(models)
            if tables.verdict(row, row.measure(column)) in tables.NOT_REACHED
        ]
        if short:
            titles = ", ".join(column.title for column in short)
            lines.append(f"- **{row.what}** ({titles}). {why_short(row, short)}")
    body = "\n".join(lines) if lines else "No measured row falls short."
    return f"## Where it falls short\n\n{body}"


def _model(document: Mapping[str, Any], measured: Measured) -> str:
    plan = document["plan"]
    parts = [
        f"## {measured.model.capitalize()}",
        f"Mean (lowest to highest) of {measured.num_repeats} repeats.",
        _table(tables.server_header(measured), tables.server_rows(measured, plan["usd_per_hour"])),
        f"Ratios within a repeat. {_static_note(measured)}",
        _table(tables.ratio_header(measured), tables.ratio_rows(measured)),
    ]
    offered = list(tables.offered_rows(measured))
    if offered:
        rate = document["offered_per_s"][measured.model]
        parts += [
            f"Poisson arrivals at {rate:.2f} requests/s, the same for all servers: "
            f"{plan['offered_fraction']:.0%} of what plain vLLM answered in `{SATURATED}` before "
            "the run. A server that is slower than that builds a queue as long as the slice lasts.",
            _table(tables.offered_header(), offered),
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
        arm: [one for cell in measured.cells for one in measured.counts[arm, cell]]
        for arm in measured.arms
    }
    errors = {arm: sum(one.num_errors for one in counts) for arm, counts in totals.items()}
    if any(errors.values()):
        failed = ", ".join(f"`{arm}` {number}" for arm, number in errors.items() if number)
        notes.append(f"**Failed requests, in no figure: {failed}.**")
    lengths = ", ".join(
        f"`{arm}` {sum(c.output_tokens for c in counts) / sum(c.num_requests for c in counts):.1f}"
        for arm, counts in totals.items()
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
        "- Verdicts: *reached* if every repeat reaches the published ratio, *short* if none does."
    )


def _table(header: Sequence[str], rows: Iterable[Claim]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(row.render() for row in rows)])
