"""The JSON document of `paceline draft eval`, and the lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from paceline.foundation.models.acceptance import AcceptanceFigures, Estimate
from paceline.workbench.draft.evaluation.evaluate import Evaluation
from paceline.workbench.draft.evaluation.served import TOLERANCE, ServedComparison

_SCHEMA_VERSION = 1


def render_document(evaluation: Evaluation, environment: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` writes. docs/how-to/train-a-draft.md defines every figure."""
    options = evaluation.options
    served = evaluation.served
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "paceline draft eval",
        "target": {"model": options.target, "revision": evaluation.target_revision},
        "draft": {"model": options.draft, "revision": evaluation.draft_revision},
        "prompts": {
            "sha256": evaluation.prompts_sha256,
            "num_prompts": evaluation.num_prompts,
            "num_too_long": evaluation.num_too_long,
        },
        "max_draft_length": options.max_draft_length,
        "seed": options.seed,
        "acceptance": [
            {"sampling": asdict(sampling), **asdict(figures)}
            for sampling, figures in evaluation.figures.items()
        ],
        "by_category": {
            category: [
                {"sampling": asdict(sampling), **asdict(figures)}
                for sampling, figures in by_sampling.items()
            ]
            for category, by_sampling in evaluation.by_category.items()
        },
        "served": None if served is None else _render_served(served),
        "environment": dict(environment),
    }


def render_lines(evaluation: Evaluation) -> Iterator[str]:
    """The report for a terminal."""
    yield (
        f"{evaluation.options.draft} for {evaluation.options.target}: "
        f"{evaluation.num_prompts} prompts, drafts of {evaluation.options.max_draft_length} tokens"
    )
    if evaluation.num_too_long:
        yield f"{evaluation.num_too_long} prompts left out: too long for the models"
    for sampling, figures in evaluation.figures.items():
        yield ""
        yield f"{sampling.label}:"
        yield from figure_lines(figures)
    for category, by_sampling in evaluation.by_category.items():
        yield ""
        for sampling, figures in by_sampling.items():
            first = figures.accepted_per_position_fraction[0]
            yield (
                f"{category}, {sampling.label}: tokens per step "
                f"{_text(figures.acceptance_length)}, position 1 {_text(first)}"
            )
    if evaluation.served is not None:
        yield ""
        yield from _served_lines(evaluation.served)


def figure_lines(figures: AcceptanceFigures) -> Iterator[str]:
    """One line per figure, with its 95 % interval."""
    yield f"  acceptance rate       {_text(figures.acceptance_rate)}"
    yield f"  acceptance length     {_text(figures.acceptance_length)}"
    for number, estimate in enumerate(figures.accepted_per_position_fraction, start=1):
        given = figures.conditional_per_position[number - 1]
        after = "" if given is None else f"   given the position before {given.value:.3f}"
        yield f"  accepted, position {number:<2} {_text(estimate)}{after}"
    yield f"  mean over all tokens  {_text(figures.token_acceptance)}"


def _served_lines(served: ServedComparison) -> Iterator[str]:
    verdict = "equal within" if served.is_equal else "not equal within"
    yield f"served, {served.label}: {verdict} {TOLERANCE:g}"
    if served.is_undecided:
        yield (
            "  not decided: so few answers may differ this much by chance; give more prompts, or "
            "more --answers-per-prompt and as many more requests of paceline bench run"
        )
    for figure in served.figures:
        yield (
            f"  {figure.name:<24} offline {figure.offline:.3f} ± {figure.offline_error:.3f}  "
            f"served {figure.served:.3f}  difference {figure.difference:+.3f}"
        )


def _render_served(served: ServedComparison) -> dict[str, Any]:
    return {
        "sampling": served.label,
        "tolerance": TOLERANCE,
        "equal": served.is_equal,
        "undecided": served.is_undecided,
        "figures": [{**asdict(one), "difference": one.difference} for one in served.figures],
    }


def _text(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
