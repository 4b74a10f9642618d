"""Render a comparison: the JSON document, and lines for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from paceline.foundation.results.text import render_governors
from paceline.workbench.bench.compare.contrasts import Arm, Block, Figure
from paceline.workbench.bench.compare.measure import ArmIdentity, Comparison, is_valid
from paceline.workbench.bench.compare.verdict import (
    Judgement,
    RelativeDifference,
    Verdict,
    name_of,
    render_difference,
)

SCHEMA_VERSION = 1
_UNITS = {Figure.OUTPUT_TOKENS_PER_S: "tokens/s", Figure.TTFT_MS: "ms", Figure.TPOT_MS: "ms"}
METHOD = (
    "Rounds of four blocks (A B B A or B A A B, by a coin) of the same requests; difference of a "
    "round: log of the ratio of the geometric means; estimate: Hodges-Lehmann; interval: inverted "
    "Wilcoxon signed-rank test; looks share the total error by t cubed (union bound)."
)


def verdict_of(comparison: Comparison) -> tuple[Verdict, str]:
    """The verdict and its reason; undecided where nothing could be judged."""
    judgement = _last(comparison)
    if judgement is None:
        return Verdict.UNDECIDED, "no round was finished"
    if not is_valid(comparison):
        return Verdict.UNDECIDED, "the load generator did not keep to the schedule"
    return judgement.verdict, judgement.reason


def render_document(comparison: Comparison) -> dict[str, Any]:
    """The document that `--json` writes. docs/bench-compare.md describes its keys."""
    verdict, reason = verdict_of(comparison)
    judgement = _last(comparison)
    config, campaign = comparison.config, comparison.campaign
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline bench compare",
        "verdict": verdict.value,
        "reason": reason,
        "figure": config.primary.value,
        "difference": {
            figure.value: _difference(judgement.difference[figure] if judgement else None)
            for figure in Figure
        },
        "aa": {
            **_difference(judgement.aa[config.primary] if judgement else None),
            "figure": config.primary.value,
            "by_figure": {
                figure.value: _difference(judgement.aa[figure] if judgement else None)
                for figure in Figure
            },
        },
        "confidence": None if judgement is None else 1 - judgement.error,
        "arms": {arm.value: _arm(comparison, arm) for arm in Arm},
        "num_rounds": len(campaign.rounds),
        "num_planned_rounds": campaign.num_planned_rounds,
        "num_failed_rounds": judgement.num_failed_rounds if judgement else 0,
        "num_requests_per_block": comparison.num_requests_per_block,
        "looks": [_look(judgement) for judgement in campaign.judgements],
        "is_interrupted": comparison.is_interrupted,
        "is_valid": is_valid(comparison),
        "config": asdict(config),
        "environment": asdict(comparison.environment),
        "method": METHOD,
        "notes": comparison.notes,
        "blocks": [_block(block) for block in _blocks(comparison)],
    }


def render_lines(comparison: Comparison) -> Iterator[str]:
    """The result for a terminal, one line at a time."""
    verdict, reason = verdict_of(comparison)
    for arm in Arm:
        identity = comparison.arms.get(arm)
        if identity is not None:
            yield f"{arm.upper()}  {name_of_arm(identity)}  model {identity.model}"
    judgement = _last(comparison)
    if judgement is not None:
        confidence = f"{100 * (1 - judgement.error):.2f}".rstrip("0").rstrip(".")
        yield f"B against A, {confidence} % intervals, {judgement.num_rounds} rounds:"
        for figure in Figure:
            values = (_median(comparison, arm, figure) for arm in Arm)
            a, b = ("unknown" if v is None else f"{v:,.1f}" for v in values)
            difference = render_difference(judgement.difference[figure])
            yield f"  {name_of(figure):22} {a:>10} -> {b:>10} {_UNITS[figure]:8}  {difference}"
        aa = render_difference(judgement.aa[comparison.config.primary])
        yield f"  A against itself: {name_of(comparison.config.primary)} {aa}"
    yield f"verdict: {verdict.value.replace('_', ' ')}: {reason}"
    yield from (f"- {note}" for note in comparison.notes)


def name_of_arm(identity: ArmIdentity) -> str:
    """The server as given, and the setting that it had."""
    if identity.setting is None:
        return identity.subject
    return f"{identity.subject}  {identity.setting} ({render_governors(identity.governors)})"


def _last(comparison: Comparison) -> Judgement | None:
    judgements = comparison.campaign.judgements
    return judgements[-1] if judgements else None


def _difference(difference: RelativeDifference | None) -> dict[str, float | None]:
    if difference is None:
        return {"relative": None, "low": None, "high": None}
    return {
        "relative": difference.relative,
        "low": difference.low,
        "high": difference.high,
    }


def _look(judgement: Judgement) -> dict[str, Any]:
    return {
        "num_rounds": judgement.num_rounds,
        "error": judgement.error,
        "verdict": judgement.verdict.value,
        "difference": _difference(judgement.difference[judgement.primary]),
        "aa": _difference(judgement.aa[judgement.primary]),
    }


def _arm(comparison: Comparison, arm: Arm) -> dict[str, Any]:
    identity = comparison.arms.get(arm)
    mine = [block for block in _blocks(comparison) if block.arm is arm]
    return {
        **(asdict(identity) if identity is not None else {}),
        "num_requests": sum(block.num_requests for block in mine),
        "num_errors": sum(block.num_errors for block in mine),
        **{figure.value: _median(comparison, arm, figure) for figure in Figure},
    }


def _block(block: Block) -> dict[str, Any]:
    """A block with the latest of its dispatch delays only."""
    document = asdict(block)
    delays_ms = document.pop("dispatch_delays_ms")
    return {**document, "max_dispatch_delay_ms": max(delays_ms, default=None)}


def _blocks(comparison: Comparison) -> Iterator[Block]:
    for one in comparison.campaign.rounds:
        yield from one.blocks


def _median(comparison: Comparison, arm: Arm, figure: Figure) -> float | None:
    """The median over the arm's blocks; None without a known figure."""
    values = [
        value
        for block in _blocks(comparison)
        if block.arm is arm and (value := block.figure(figure)) is not None
    ]
    return statistics.median(values) if values else None
