"""Render the report of a run as markdown: targets, arms, phases, losses, adaptation, caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from benchmarks.governor.report.adaptation import Adaptation
from benchmarks.governor.report.analysis import ArmFinding, Findings
from benchmarks.governor.report.measured import Measured
from benchmarks.governor.report.tables import (
    render_median_ms,
    render_or_never,
    render_percent,
    render_rate,
    table,
)
from benchmarks.governor.report.targets import OF_FLOOR, claims_of
from benchmarks.governor.trace.arms import LEARNING_ARMS
from benchmarks.servers import MAX_IDLE_CORES

SUBJECTS = ("goodput", "threshold")
"""Arms that are compared with the targets, in this order."""


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
    sections.append(_caveats(document, measured))
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
        f"{_target_note(plan['target'])}"
        f"Means (lowest to highest) over n = {measured.num_repeats} repeats; ratios compare runs "
        "of the same repeat."
    )


def _target_note(target: str) -> str:
    """What the twin is; nothing for other targets."""
    if PurePath(target).name != "twin":
        return ""
    return (
        "The twin is the bundled 11M target padded to the cost of about 120M parameters with "
        "layers that add nothing to its outputs (`python -m paceline.demo.recipe.deepen`).\n\n"
    )


def _targets(arm: ArmFinding, adapted: Sequence[Adaptation]) -> str:
    rows = [(c.text, c.target, c.measured, c.verdict) for c in claims_of(arm, adapted)]
    text = f"## Targets: {arm.arm}\n\n" + table(("claim", "target", "measured", "verdict"), rows)
    first, *later = arm.of_oracle.values
    if later:
        text += (
            f"\n\nOf the oracle over the trace: {first:.1%} in the first repeat, with an "
            f"untrained policy, {sum(later) / len(later):.1%} in the later ones."
        )
    return text


def _arms(findings: Findings) -> str:
    heads = ("arm", "tokens/s", "of oracle", "of oracle, by phase", "worst phase", "in it")
    rows = [
        (
            arm.arm,
            render_rate(arm.rate),
            render_percent(arm.of_oracle),
            render_percent(arm.of_oracle_by_phase),
            arm.worst_phase.phase,
            render_percent(arm.worst_phase.of_floor),
        )
        for arm in findings.arms
    ]
    offline = ", ".join(f"{load}: {arm}" for load, arm in findings.offline_table.items())
    return (
        f"## Arms\n\n{table(heads, rows)}\n\n"
        f"Best single length: {findings.best_single} over the trace, "
        f"{findings.best_single_by_phase} by phase. Best offline-tuned table (concurrency: "
        f"length): {offline}. The worst phase is relative to the better of no speculation "
        "and the best length."
    )


def _phases(measured: Measured, findings: Findings) -> str:
    rows = [
        (
            phase,
            *(render_rate(arm.phases[number].rate) for arm in findings.arms),
            findings.oracle_arms[number],
        )
        for number, phase in enumerate(measured.phases)
    ]
    return "## Tokens/s by phase\n\n" + table(("phase", *measured.arms, "best K"), rows)


def _waits(measured: Measured) -> str:
    """Token gaps as a reader of a stream sees them; no target covers them."""
    rows = [
        (
            phase,
            *(
                render_median_ms(measured.inter_chunk_p99_ms[arm][:, number])
                for arm in measured.arms
            ),
        )
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
        "the same of the oracle's length",
    )
    rows = [
        (
            a.phase,
            render_or_never(a.near_best_s, ".2f"),
            render_or_never(a.near_best_steps, ".0f") if a.near_best_s is not None else "never",
            "-" if a.steps_per_bucket is None else f"{a.steps_per_bucket:.0f}",
            render_or_never(a.near_itself_s, ".2f"),
            render_or_never(a.oracle_near_itself_s, ".2f"),
        )
        for a in adapted
    ]
    return f"## After a shift: {arm}\n\n" + table(heads, rows)


def _caveats(document: Mapping[str, Any], measured: Measured) -> str:
    plan = document["plan"]
    lines = [
        "Learning policies "
        f"({', '.join(arm for arm in LEARNING_ARMS if arm in measured.arms) or 'none here'}) keep "
        "what they learned when they are selected again: from the second repeat on they have seen "
        "the trace before.",
        "The oracle is the best of several noisy lengths, chosen on the runs it is compared on. "
        "This favours it by about the spread of one repeat.",
        f"Times after a shift have a resolution of {plan['bucket_s']:g} s; the table gives it in "
        "engine steps.",
        f"The table was tuned on {plan['tuning_repeats']} runs of each fixed length over the same "
        f"trace: {document['table']}."
        if document.get("table")
        else "The arm `table` was not run.",
        "Exploration loss and time per step are measured by `simulate.py` and `step_time.py`.",
    ]
    if document["resumed"]:
        lines.append(
            f"The run was resumed {document['resumed']} times; policies start untrained each time."
        )
    if measured.num_repeats < 5:
        lines.append(f"{measured.num_repeats} repeats are fewer than the recommended five.")
    busy = {n: c for n, c in document["idle_cores"].items() if c > MAX_IDLE_CORES}
    if busy:
        lines.append(f"Idle servers used cores: {busy}. Ratios are in doubt.")
    load = document["environment"]["load_average_1_min"]
    if load > 0.5:
        lines.append(
            f"The load average before the run was {load:.2f}: other processes used the machine."
        )
    if measured.num_errors:
        lines.append(f"{measured.num_errors} requests failed: the comparison is not valid.")
    return "## Caveats\n\n" + "\n".join(f"- {line}" for line in lines)
