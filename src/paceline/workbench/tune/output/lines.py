"""The result of a tuning for a terminal: the winner, why it wins, and what was tried."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.workbench.tune.output.document import Context
from paceline.workbench.tune.search import Finalist, Outcome
from paceline.workbench.tune.search.outcome import Advantage, Interval
from paceline.workbench.tune.state import TuneState

_MAX_TRIED = 15
"""Shown; the JSON document lists all."""


def render_lines(context: Context, state: TuneState, outcome: Outcome) -> Iterator[str]:
    """One line at a time."""
    if outcome.winner is None and outcome.best_tried is not None:
        yield from _too_few_tried(context, outcome, outcome.best_tried)
    elif outcome.winner is None:
        yield from _no_winner(outcome)
    else:
        yield f"Winner: {outcome.winner.cell.label}"
        yield f"  {_rate(outcome.winner)}"
        yield f"  {_attained(outcome.winner)}, on held-out requests"
        if not outcome.winner.meets_slo:
            yield "  It met the SLO on the qualifying requests, and on these it does not."
        if outcome.num_open:
            yield f"  {outcome.num_open} of the settings that were not tried could be better."
        for advantage in outcome.advantages:
            yield f"  {_advantage(advantage, outcome)}"
    yield ""
    yield f"Tried {len(outcome.tried)} of {context.num_grid_cells} settings:"
    yield "  blocks  good requests/s  within SLO  setting"
    for tried in outcome.tried[:_MAX_TRIED]:
        miss = "  (misses the SLO)" if tried.surely_misses_slo else ""
        yield (
            f"  {tried.num_blocks:>6}  {tried.good_requests_per_s:>15.2f}  "
            f"{tried.attained_fraction:>9.0%}   {tried.cell.label}{miss}"
        )
    if len(outcome.tried) > _MAX_TRIED:
        yield f"  and {len(outcome.tried) - _MAX_TRIED} more in the JSON document (--json)"
    for label, reason in context.dropped.items():
        yield f"  not started: {label}: {reason}"
    for restart, reason in outcome.failures.items():
        yield f"  failed: {restart.label}: {reason}"
    yield (
        f"{state.num_starts} server starts, {outcome.num_search_blocks} blocks to search, "
        f"{outcome.num_qualifying_blocks} to qualify and {outcome.num_held_out_blocks} held out; "
        f"ended because {outcome.why_ended}."
    )
    for note in context.notes:
        yield f"Note: {note}"


def _too_few_tried(context: Context, outcome: Outcome, best: Finalist) -> Iterator[str]:
    yield (
        f"No winner: {len(outcome.tried)} of {context.num_grid_cells} settings were tried, and "
        f"{outcome.num_open} of the others could be better."
    )
    yield f"  The best of those that were tried: {best.cell.label}"
    yield f"  {_rate(best)}"
    yield f"  {_attained(best)}, on held-out requests"
    yield (
        "  Allow more blocks: leave --max-blocks out or raise it, raise --max-minutes or "
        "--max-starts, shorten --block-seconds, or give fewer values (--space)."
    )


def _no_winner(outcome: Outcome) -> Iterator[str]:
    yield "No setting meets the SLO on qualifying requests."
    for finalist in outcome.finalists[:3]:
        yield f"  {finalist.cell.label}: {_attained(finalist)}"
    yield (
        "  Loosen --slo-ttft-ms, --slo-tpot-ms or --attain, or give smaller values of "
        "live.max_in_flight (--space)."
    )


def _rate(finalist: Finalist) -> str:
    text = f"{finalist.good_requests_per_s:.2f} good requests/s{_interval(finalist)}"
    if finalist.good_requests_per_usd is not None:
        text += f", {finalist.good_requests_per_usd:,.0f} per dollar"
    return text


def _interval(finalist: Finalist) -> str:
    bounds = finalist.good_requests_per_s_ci95
    return "" if bounds is None else f" ({bounds[0]:.2f} to {bounds[1]:.2f})"


def _attained(finalist: Finalist) -> str:
    return (
        f"{finalist.attained_fraction:.1%} within the SLO{_share(finalist.attained_fraction_ci95)}"
    )


def _share(bounds: Interval | None) -> str:
    return "" if bounds is None else f" ({bounds[0]:.1%} to {bounds[1]:.1%})"


def _advantage(advantage: Advantage, outcome: Outcome) -> str:
    assert outcome.best_tried is not None
    same = advantage.over.restart == outcome.best_tried.cell.restart
    place = "the best other setting of this server" if same else "the best of the other servers"
    return (
        f"{advantage.relative:+.1%} ({advantage.low:+.1%} to {advantage.high:+.1%}) against "
        f"{place}: {advantage.over.label}"
    )
