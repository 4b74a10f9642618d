"""The figures of one model as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.compatibility.kernels import render_kernels

_COLUMNS = (
    "variant", "dtype", "kernels", "weights, MB", "KV tokens", "tokens/s", "of baseline",
    "perplexity", "first choice", "same greedy tokens",
)  # fmt: skip
_PRODUCT_COLUMNS = (
    "format and drafter", "by format", "by speculation", "by both", "both / product of the two",
    "tokens per step",
)  # fmt: skip
_PROFILE_COLUMNS = ("variant", "operator", "calls", "share of processor time")


def render_model(
    model: str,
    summary: Mapping[str, Any],
    made: Sequence[Mapping[str, Any]],
    loads: Sequence[Mapping[str, Any]],
    profiles: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]] = (),
    *,
    is_compiled: bool,
) -> str:
    """The tables of one model, with what vLLM refused and where the gate is wrong.

    `is_compiled` concerns the engines whose speed was measured.
    """
    mode = "compiled" if is_compiled else "eager"
    lines = [f"## {model}, {mode}: baseline {summary['baseline']}, best {summary['best']}", ""]
    lines += _table(_COLUMNS, [_row(load, summary["rows"][load["variant"]]) for load in loads])
    failed = [one for one in made if "error" in one]
    if failed:
        lines += ["", "`paceline quantize` fails:", ""]
        lines += [
            f"- {one['scheme']}, {one['backend']}: {_shortened(one['error'])}" for one in failed
        ]
    refused = [load for load in loads if "error" in load["outcome"]]
    if refused:
        lines += ["", "vLLM refuses:", ""]
        lines += [
            f"- {load['variant']}: {_shortened(load['outcome']['error'])}" for load in refused
        ]
        lines += ["", "The gate says:", ""]
        lines += [f"- {load['variant']}: {load['gate']['refusal'] or 'served'}" for load in refused]
    if failures:
        lines += ["", "Ended while they were measured:", ""]
        lines += [
            f"- {one['variant']}, {one['kind']}: {_shortened(one['error'])}" for one in failures
        ]
    if summary["disagreements"]:
        lines += ["", "**The gate and vLLM disagree:**", ""]
        lines += [
            f"- {name}: {_shortened(text)}" for name, text in summary["disagreements"].items()
        ]
    if summary["products"]:
        lines += ["", *_table(_PRODUCT_COLUMNS, list(map(_product_row, summary["products"])))]
    if profiles:
        rows = [
            (
                profile["variant"],
                f"`{one['name']}`",
                str(one["calls"]),
                f"{one['self_s'] / profile['operators_s']:.1%}",
            )
            for profile in profiles
            for one in profile["operators"][:6]
        ]
        lines += ["", *_table(_PROFILE_COLUMNS, rows)]
    return "\n".join(lines) + "\n"


def _row(load: Mapping[str, Any], figures: Mapping[str, Any]) -> tuple[str, ...]:
    outcome = load["outcome"]
    if "error" in outcome:
        return (load["variant"], load["dtype"], "refused", *("" for _ in _COLUMNS[3:]))
    return (
        load["variant"],
        load["dtype"],
        render_kernels(outcome["kernels"]),
        f"{load['weights_bytes'] / 1e6:.1f}",
        f"{outcome['kv_cache_tokens']:,}",
        _number(figures, "tokens_per_s", "{:.1f}"),
        _spread(figures, ""),
        _number(figures, "perplexity", "{:.3f}"),
        _number(figures, "first_choice", "{:.1%}"),
        _number(figures, "greedy_same", "{:.1%}"),
    )


def _product_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['format']}, {row['drafter']}",
        f"{row['format_ratio']:.2f}",
        f"{row['speculation_ratio']:.2f}",
        _spread(row, "both_"),
        f"{row['kept']:.2f}",
        f"{row['tokens_per_step']:.2f}, {row['both_tokens_per_step']:.2f}",
    )


def _spread(figures: Mapping[str, Any], prefix: str) -> str:
    if figures.get(f"{prefix}ratio") is None:
        return ""
    ratio, low, high = (figures[f"{prefix}{key}"] for key in ("ratio", "ratio_min", "ratio_max"))
    return f"{ratio:.2f} ({low:.2f} to {high:.2f}, n = {figures[f'{prefix}n']})"


def _number(figures: Mapping[str, Any], key: str, form: str) -> str:
    return form.format(figures[key]) if key in figures else ""


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
