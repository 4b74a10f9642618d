"""How does the result read? Markdown for people: targets first, losses beside wins, then doubts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.governor.adaptation import Adaptation
from benchmarks.governor.analysis import ArmFinding, Findings
from benchmarks.governor.arms import LEARNING_ARMS
from benchmarks.governor.claims import OF_FLOOR, claims_of, render_percent
from benchmarks.governor.markdown import table
from benchmarks.governor.measured import Estimate, Floats, Measured
from benchmarks.servers import MAX_IDLE_CORES

SUBJECTS = ("goodput", "threshold")
"""Arms that are held against the targets, in this order."""


def render_report(
    document: Mapping[str, Any],
    measured: Measured,
    findings: Findings,
    adapted: Mapping[str, Sequence[Adaptation]],
    plots: Sequence[tuple[str, str]],
) -> str:
    """`adapted` by arm; `plots` are (title, file name)."""
    plan = document["plan"]
    subjects = [arm for arm in SUBJECTS if arm in measured.arms]
    sections = [_head(document, measured)]
    sections += [_targets(findings.arm(arm), adapted[arm]) for arm in subjects]
    sections.append(_arms(findings))
    sections.append(_phases(measured, findings))
    sections.append(_waits(measured))
    for arm in subjects:
        sections.append(_losses(findings.arm(arm), findings))
        sections.append(_adaptation(arm, adapted[arm], plan["bucket_s"]))
    sections.append("## Plots\n\n" + "\n\n".join(f"![{title}]({file})" for title, file in plots))
    sections.append(_doubts(document, measured))
    return "\n\n".join(sections) + "\n"


def _head(document: Mapping[str, Any], measured: Measured) -> str:
    plan, environment = document["plan"], document["environment"]
    drafter = f"draft model {plan['draft_model']}" if plan["drafter"] == "model" else "n-gram"
    return (
        f"# The governor on a shifting trace: {plan['target']}, {drafter}\n\n"
        f"{measured.num_repeats} repeats of {len(measured.phases)} phases of "
        f"{plan['phase_s']:g} s, arms in turn, on {environment['cpu_model']}, "
        f"{environment['num_logical_cores']} cores; vLLM "
        f"{environment['vllm_server'] or environment['vllm_installed']}, Paceline "
        f"{environment['paceline']}; {environment['date_utc']}.\n\n"
        f"    {environment['command']}\n\n"
        "Means over repeats with 95 % bootstrap intervals; ratios compare runs of one repeat."
    )


def _targets(arm: ArmFinding, adapted: Sequence[Adaptation]) -> str:
    rows = [(c.text, c.target, c.measured, c.verdict) for c in claims_of(arm, adapted)]
    text = f"## Targets: {arm.arm}\n\n" + table(("claim", "target", "measured", "verdict"), rows)
    first, *later = arm.of_oracle.values
    if later:
        text += (
            f"\n\nOf the oracle over the trace: {first:.1%} in the first repeat, which began with "
            f"nothing learned, {sum(later) / len(later):.1%} in the later ones."
        )
    return text


def _arms(findings: Findings) -> str:
    heads = ("arm", "tokens/s", "of oracle", "of oracle, by phase", "worst phase", "there")
    rows = [
        (
            arm.arm,
            _rate(arm.rate),
            render_percent(arm.of_oracle),
            render_percent(arm.of_oracle_by_phase),
            arm.worst_phase.phase,
            render_percent(arm.worst_phase.of_floor),
        )
        for arm in findings.arms
    ]
    hindsight = ", ".join(f"{load}: {arm}" for load, arm in findings.hindsight_table.items())
    return (
        f"## Arms\n\n{table(heads, rows)}\n\n"
        f"Best single length: {findings.best_single} over the trace, "
        f"{findings.best_single_by_phase} by phase. Best table in hindsight (concurrency: length): "
        f"{hindsight}. The worst phase is against the better of no speculation and the best length."
    )


def _phases(measured: Measured, findings: Findings) -> str:
    rows = [
        (
            phase,
            *(_rate(arm.phases[number].rate) for arm in findings.arms),
            findings.oracle_arms[number],
        )
        for number, phase in enumerate(measured.phases)
    ]
    return "## Tokens/s by phase\n\n" + table(("phase", *measured.arms, "best K"), rows)


def _waits(measured: Measured) -> str:
    """None of the targets, but what a reader of a stream feels."""
    rows = [
        (phase, *(_median_ms(measured.inter_chunk_p99_ms[arm][:, number]) for arm in measured.arms))
        for number, phase in enumerate(measured.phases)
    ]
    return "## P99 between chunks, ms, median of repeats\n\n" + table(
        ("phase", *measured.arms), rows
    )


def _losses(arm: ArmFinding, findings: Findings) -> str:
    rows = [
        (
            finding.phase,
            render_percent(finding.of_floor),
            findings.floor_arms[number],
        )
        for number, finding in enumerate(arm.phases)
        if finding.of_floor.mean < OF_FLOOR
    ]
    title = f"## Where {arm.arm} loses more than {1 - OF_FLOOR:.0%}"
    if not rows:
        return f"{title}\n\nIn no phase."
    return f"{title}\n\n" + table(("phase", "of the better", "which is"), rows)


def _adaptation(arm: str, adapted: Sequence[Adaptation], bucket_s: float) -> str:
    heads = (
        "phase",
        "s to 95 % of the oracle",
        "steps",
        f"steps in {bucket_s:g} s",
        "s to 95 % of its own steady rate",
        "the oracle's length, the same",
    )
    rows = [
        (
            a.phase,
            _or_never(a.near_best_s, ".2f"),
            _or_never(a.near_best_steps, ".0f") if a.near_best_s is not None else "never",
            "-" if a.steps_per_bucket is None else f"{a.steps_per_bucket:.0f}",
            _or_never(a.near_itself_s, ".2f"),
            _or_never(a.oracle_near_itself_s, ".2f"),
        )
        for a in adapted
    ]
    return f"## After a shift: {arm}\n\n" + table(heads, rows)


def _doubts(document: Mapping[str, Any], measured: Measured) -> str:
    plan = document["plan"]
    lines = [
        "Learning policies "
        f"({', '.join(arm for arm in LEARNING_ARMS if arm in measured.arms) or 'none here'}) keep "
        "what they learned when they are set again: from the second repeat on they have seen the "
        "trace before.",
        "The oracle is the best of several noisy lengths, chosen on the runs it is compared on: "
        "that favours it by about the spread of one repeat.",
        f"Times after a shift are known to {plan['bucket_s']:g} s; the table says how many engine "
        "steps that is.",
        f"The table was tuned on {plan['tuning_repeats']} runs of each fixed length over the same "
        f"trace: {document['table']}."
        if document.get("table")
        else "The arm `table` was not run.",
        "Exploration loss and time per step are measured by `simulate.py` and `step_time.py`.",
    ]
    if document["resumed"]:
        lines.append(f"The run was resumed {document['resumed']} times: then policies began anew.")
    if measured.num_repeats < 5:
        lines.append(f"{measured.num_repeats} repeats are fewer than the five asked for.")
    busy = {n: c for n, c in document["idle_cores"].items() if c > MAX_IDLE_CORES}
    if busy:
        lines.append(f"Idle servers kept cores busy: {busy}. Ratios are in doubt.")
    load = document["environment"]["load_average_1_min"]
    if load > 0.5:
        lines.append(f"Before the run the load average was {load:.2f}: others used the machine.")
    if measured.num_errors:
        lines.append(f"{measured.num_errors} requests failed: the comparison does not count.")
    return "## Doubts\n\n" + "\n".join(f"- {line}" for line in lines)


def _rate(found: Estimate) -> str:
    if not found.has_interval:
        return f"{found.mean:.0f}"
    return f"{found.mean:.0f} ({min(found.values):.0f}-{max(found.values):.0f})"


def _median_ms(values: Floats) -> str:
    known = values[~np.isnan(values)]
    return f"{np.median(known):.0f}" if len(known) else "-"


def _or_never(value: float | None, form: str) -> str:
    return "never" if value is None else format(value, form)
