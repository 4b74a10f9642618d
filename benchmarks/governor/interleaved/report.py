"""The report of a raw result, in Markdown. Ranges are lowest to highest over the repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.governor.interleaved.analysis import (
    Finding,
    Findings,
    Range,
    analyse,
    range_of,
    ranges_of,
)
from benchmarks.governor.interleaved.lengths import (
    GOOD_FRACTION,
    NEAR,
    LengthFinding,
    find_lengths,
)
from benchmarks.governor.interleaved.measured import Measured, read_measured

_MOST_LENGTHS = 6


def render_report(document: Mapping[str, Any]) -> str:
    """The whole report; without a fixed length or a complete repeat it says so and no more."""
    parts = [_render_setting(document)]
    try:
        measured = read_measured(document)
        findings = analyse(measured)
    except ValueError as error:
        return "\n\n".join([*parts, f"No comparison: {error}."]) + "\n"
    lengths = find_lengths(measured, findings)
    parts += [
        _render_totals(measured, findings, lengths),
        _render_rates(measured, findings),
        _render_ratios(measured),
        _render_floor(measured, findings),
        *(_render_lengths(measured, arm, lengths) for arm in measured.policies),
    ]
    return "\n\n".join(parts) + "\n"


def _render_setting(document: Mapping[str, Any]) -> str:
    plan, environment = document["plan"], document["environment"]
    lines = [
        "# The shifting trace with all engines alive",
        "",
        f"- Target {plan['target']}, drafter {plan['drafter']}, {plan['dtype']}, at most "
        f"{plan['max_draft_length']} draft tokens, layout {plan['layout']}.",
        f"- {len(plan['phases'])} phases of {plan['steps'][0]} to {plan['steps'][1]} output tokens "
        "per request slot" + (", shuffled in each repeat." if plan["is_shuffled"] else "."),
        f"- {environment['cpu_model']}, {environment['num_logical_cores']} cores, load average "
        f"{environment['load_average_1_min']:.1f} before the run; vLLM "
        f"{environment['vllm_installed']}; {environment['date_utc']}.",
        f"- Command: `{environment['command']}`",
    ]
    if "idle_cores" in document:
        lines.append(
            f"- All engines idle used {document['idle_cores']:.3f} cores and "
            f"{sum(document['memory_bytes'].values()) / 1e9:.1f} GB."
        )
    if plan["slow_down"]:
        slow = plan["slow_down"]
        lines.append(
            f"- Steps take {slow['factor']:g} times as long between {slow['from']:.0%} and "
            f"{slow['to']:.0%} of each phase's work."
        )
    for commit in dict.fromkeys(document["commits"].values()):
        names = [arm for arm, found in document["commits"].items() if found == commit]
        lines.append(f"- Commit {commit}: {', '.join(names)}.")
    return "\n".join(lines)


def _render_totals(measured: Measured, findings: Findings, lengths: Sequence[LengthFinding]) -> str:
    note = (
        "The oracle (best of no speculation and the fixed lengths in each phase) and the best "
        "single length are chosen on other repeats than they are scored on."
        if findings.is_cross_fitted
        else "**One repeat only: the references are chosen on the data they are scored on, which "
        "makes them too good.**"
    )
    rows = [
        ("tokens/s over the trace / oracle", [_ratio(f.of_oracle) for f in findings.policies]),
        ("the same, mean over phases", [_ratio(f.of_oracle_by_phase) for f in findings.policies]),
        (
            "/ oracle chosen on the same repeat",
            [_ratio(f.of_oracle_same_data) for f in findings.policies],
        ),
        ("/ best single length", [_ratio(f.of_single) for f in findings.policies]),
        ("oracle / best single length", [_ratio(f.oracle_of_single) for f in findings.policies]),
        ("share of the oracle's lead", [f"{f.lead_share:.2f}" for f in findings.policies]),
        (
            "mean of the worst phase / better of off and fixed",
            [_ratio(f.of_floor[f.worst_phase]) for f in findings.policies],
        ),
    ]
    for name, figure in (("steps", "near"), ("steps of second halves", "near_second_half")):
        shares = [
            [getattr(one, figure) for one in lengths if one.arm == finding.arm]
            for finding in findings.policies
        ]
        rows.append(
            (
                f"share of {name} within {NEAR} of the best length, mean (lowest) of phases",
                [f"{sum(values) / len(values):.0%} ({min(values):.0%})" for values in shares],
            )
        )
    if len(findings.policies) > 1:
        first = measured.trace_rate(measured.rates[measured.policies[0]])
        rows.append(
            (
                f"/ {measured.policies[0]}",
                [
                    _ratio(range_of(measured.trace_rate(measured.rates[arm]) / first))
                    for arm in measured.policies
                ],
            )
        )
    header = ["", *(finding.arm for finding in findings.policies)]
    lines = ["## Over the trace", "", note, "", _table(header, [[n, *v] for n, v in rows])]
    lines += ["", f"Best single length by repeat: {', '.join(findings.single)}."]
    if findings.control is not None and findings.control_over_trace is not None:
        means = [one.mean for one in findings.control]
        lines.append(
            f"Two engines without speculation, second / first: over the trace "
            f"{_ratio(findings.control_over_trace)}; means of the phases {min(means):.3f} to "
            f"{max(means):.3f}."
        )
    return "\n".join(lines)


def _render_rates(measured: Measured, findings: Findings) -> str:
    """Tokens per second of every arm in every phase."""
    rows = []
    for column, phase in enumerate(measured.phases):
        best = {findings.candidates[index] for index in findings.oracle[:, column]}
        row = [phase]
        for arm in measured.arms:
            rates = measured.rates[arm][:, column]
            text = f"{rates.mean():.0f} ({rates.min():.0f} to {rates.max():.0f})"
            row.append(f"**{text}**" if arm in best else text)
        rows.append(row)
    return "\n".join(
        [
            "## Tokens per second",
            "",
            f"Mean (lowest to highest) of {measured.num_repeats} repeats; bold: the oracle of at "
            "least one repeat.",
            "",
            _table(["phase", *measured.arms], rows),
        ]
    )


def _render_ratios(measured: Measured) -> str:
    """Every arm over the first control, repeat by repeat."""
    if not measured.controls:
        return "## Relative to no speculation\n\nNo arm without speculation was measured."
    control = measured.rates[measured.controls[0]]
    arms = [arm for arm in measured.arms if arm != measured.controls[0]]
    ranges = {arm: ranges_of(measured.rates[arm] / control) for arm in arms}
    rows = [
        [phase, *(_short(ranges[arm][column]) for arm in arms)]
        for column, phase in enumerate(measured.phases)
    ]
    return "\n".join(["## Relative to no speculation", "", _table(["phase", *arms], rows)])


def _render_floor(measured: Measured, findings: Findings) -> str:
    """Each policy over the better of off and fixed, with the control beside it."""
    rows = []
    for column, phase in enumerate(measured.phases):
        best = [findings.candidates[index] for index in findings.oracle[:, column]]
        control = [] if findings.control is None else [_ratio(findings.control[column])]
        shown = [_ratio(_floor(finding, column)) for finding in findings.policies]
        rows.append([phase, ", ".join(best), *shown, *control])
    header = ["phase", "reference by repeat", *(f.arm for f in findings.policies)]
    if findings.control is not None:
        header.append("control")
    return "\n".join(
        [
            "## Against the better of off and the best fixed length",
            "",
            "The last column is the ratio of two engines without speculation: the noise. It is "
            "never subtracted.",
            "",
            _table(header, rows),
        ]
    )


def _floor(finding: Finding, column: int) -> Range:
    return finding.of_floor[column]


def _render_lengths(measured: Measured, arm: str, lengths: Iterable[LengthFinding]) -> str:
    mine = [finding for finding in lengths if finding.arm == arm]
    is_slowed = any(finding.near_while_slowed is not None for finding in mine)
    header = [
        "phase", "best", f"within {NEAR}", "second half",
        *(["while slowed"] if is_slowed else []),
        f"≥ {GOOD_FRACTION:.0%} of best", "exploring", "changes / 100", "adapted after",
        "prompt tokens", "steps with prompts", "lengths",
    ]  # fmt: skip
    rows = [
        [
            measured.phases[one.phase],
            ", ".join(map(str, one.best)),
            f"{one.near:.0%}",
            f"{one.near_second_half:.0%}",
            *([_percent(one.near_while_slowed)] if is_slowed else []),
            f"{one.good:.0%}",
            f"{one.exploring:.1%}",
            f"{one.changes_per_100_steps:.0f}",
            "never" if one.adapted_after_steps is None else f"{one.adapted_after_steps:.0f}",
            f"{one.prompt_share:.0%}",
            f"{one.steps_with_prompts:.0%}",
            " ".join(f"{length}:{share:.0%}" for length, share in one.visited[:_MOST_LENGTHS]),
        ]
        for one in mine
    ]
    errors = measured.policy_errors[arm]
    return "\n".join(
        [
            f"## Draft lengths of {arm}",
            "",
            f"Shares of steps. {errors} errors of the policy." if errors else "Shares of steps.",
            "",
            _table(header, rows),
            "",
            "Most frequent reasons, by phase:",
            "",
            *(
                f"- {measured.phases[one.phase]}: "
                + "; ".join(f"{reason} ({share:.0%})" for reason, share in one.reasons)
                for one in mine
            ),
        ]
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _ratio(one: Range) -> str:
    return f"{one.mean:.3f} ({one.lowest:.3f} to {one.highest:.3f}, n={one.n})"


def _short(one: Range) -> str:
    return f"{one.mean:.2f} ({one.lowest:.2f} to {one.highest:.2f})"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
