"""Acceptance over a window, from the speculation counters before and after it.

Acceptance rate = accepted / drafted tokens. Acceptance length = 1 + accepted tokens / drafts,
the bonus token included. Both describe the whole server, including the traffic of other clients.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_POSITION = re.compile(r'(?:^|,)position="(\d+)"')

_DRAFTED_NAMES = (
    "vllm:spec_decode_num_draft_tokens_total",
    "paceline_governor_drafted_tokens_total",
)
_ACCEPTED_NAMES = (
    "vllm:spec_decode_num_accepted_tokens_total",
    "paceline_governor_accepted_tokens_total",
)
_DRAFTS_NAMES = ("vllm:spec_decode_num_drafts_total", "paceline_governor_drafts_total")
_PER_POSITION_NAMES = (
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "paceline_governor_accepted_per_position_total",
)

_GENERATED_NAMES = ("vllm:generation_tokens_total",)

COUNTER_FELL = "a counter fell: an engine restarted in the window"


@dataclass(frozen=True, slots=True)
class SpeculationCounters:
    """Totals since the server's start, summed over its replicas."""

    drafted_tokens: int
    accepted_tokens: int
    num_drafts: int | None
    accepted_per_position: tuple[int, ...] | None
    """(max_draft_length,); None when the server does not report it."""
    generated_tokens: int | None = None
    """All output tokens, of whatever request; None when the server does not report it."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Acceptance over the measured window; unknown figures are None."""

    acceptance_rate: float | None
    acceptance_length: float | None
    drafted_tokens: int | None
    accepted_tokens: int | None
    num_drafts: int | None
    accepted_per_position_fraction: tuple[float, ...] | None
    """Accepted tokens at each position / drafts, (max_draft_length,)."""
    source: str | None
    """The page that the counters were read from."""
    governor: tuple[Mapping[str, Any], ...]
    """State of each replica's governor after the window; empty for other servers."""
    note: str | None
    generated_tokens: int | None = None
    """Output tokens that the server counted in the window, those of other clients included."""


def counters_from_metrics(text: str) -> SpeculationCounters | None:
    """The counters of vLLM or Paceline in a Prometheus exposition; None when it has neither."""
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        name, labels, value = sample.groups()
        if name in _PER_POSITION_NAMES:
            if position := _POSITION.search(labels or ""):
                index = int(position.group(1))
                positions[index] = positions.get(index, 0.0) + float(value)
        elif name in _DRAFTED_NAMES + _ACCEPTED_NAMES + _DRAFTS_NAMES + _GENERATED_NAMES:
            totals[name] = totals.get(name, 0.0) + float(value)
    drafted, accepted = _first(totals, _DRAFTED_NAMES), _first(totals, _ACCEPTED_NAMES)
    if drafted is None or accepted is None:
        return None
    per_position = tuple(int(positions.get(i, 0.0)) for i in range(max(positions, default=-1) + 1))
    return SpeculationCounters(
        drafted,
        accepted,
        _first(totals, _DRAFTS_NAMES),
        per_position or None,
        _first(totals, _GENERATED_NAMES),
    )


def governor_states(document: object) -> list[Mapping[str, Any]]:
    """Every governor state in an /admin/governor answer, however it is nested per replica."""
    return list(_walk_states(document))


def counters_from_governor(document: object) -> SpeculationCounters | None:
    """The sum of the counters of all governor states in an /admin/governor answer, or None."""
    states = governor_states(document)
    if not states:
        return None
    drafts = [state.get("num_drafts_total") for state in states]
    columns = [state.get("accepted_per_position_total") for state in states]
    per_position: tuple[int, ...] | None = None
    if all(isinstance(column, list) for column in columns):
        width = max(len(column) for column in columns if column is not None)
        per_position = tuple(
            sum(int(c[i]) for c in columns if c is not None and i < len(c)) for i in range(width)
        )
    return SpeculationCounters(
        drafted_tokens=sum(int(state["drafted_tokens_total"]) for state in states),
        accepted_tokens=sum(int(state["accepted_tokens_total"]) for state in states),
        num_drafts=None if None in drafts else sum(int(d) for d in drafts if d is not None),
        accepted_per_position=per_position or None,
    )


def unknown_speculation(note: str, source: str | None = None) -> Speculation:
    """The value reported when acceptance is not known; `note` says why."""
    return Speculation(None, None, None, None, None, None, source, (), note)


def compare_counters(
    before: SpeculationCounters | None,
    after: SpeculationCounters | None,
    source: str,
    governor: tuple[Mapping[str, Any], ...] = (),
) -> Speculation:
    """Acceptance between two readings of the same counters.

    Unknown when a reading is missing or a counter fell (the engine restarted in between). When
    nothing was drafted, the counts are 0 and the ratios None.
    """
    if before is None or after is None:
        return unknown_speculation("the server reports no speculation counters", source)
    drafted = after.drafted_tokens - before.drafted_tokens
    accepted = after.accepted_tokens - before.accepted_tokens
    num_drafts = None
    if before.num_drafts is not None and after.num_drafts is not None:
        num_drafts = after.num_drafts - before.num_drafts
    if has_fallen(before, after):
        return unknown_speculation(COUNTER_FELL, source)
    return Speculation(
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_length=1 + accepted / num_drafts if num_drafts else None,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        num_drafts=num_drafts,
        accepted_per_position_fraction=_per_position_fractions(before, after, num_drafts),
        source=source,
        governor=governor,
        note=None if drafted else "nothing was drafted in the window",
        generated_tokens=(
            None
            if before.generated_tokens is None or after.generated_tokens is None
            else after.generated_tokens - before.generated_tokens
        ),
    )


def has_fallen(before: SpeculationCounters, after: SpeculationCounters) -> bool:
    """Whether a counter is lower than before, because an engine restarted."""
    return (
        after.drafted_tokens < before.drafted_tokens
        or after.accepted_tokens < before.accepted_tokens
        or (after.num_drafts or 0) < (before.num_drafts or 0)
    )


def add_difference(
    total: SpeculationCounters, before: SpeculationCounters, after: SpeculationCounters
) -> SpeculationCounters:
    """`total` and what was counted between two readings; what one of them lacks is None."""
    drafts = (total.num_drafts, before.num_drafts, after.num_drafts)
    generated = (total.generated_tokens, before.generated_tokens, after.generated_tokens)
    first, last = before.accepted_per_position or (), after.accepted_per_position
    per_position: tuple[int, ...] | None = None
    if total.accepted_per_position is not None and last is not None:
        rows = itertools.zip_longest(total.accepted_per_position, first, last, fillvalue=0)
        per_position = tuple(t + b - a for t, a, b in rows)
    return SpeculationCounters(
        drafted_tokens=total.drafted_tokens + after.drafted_tokens - before.drafted_tokens,
        accepted_tokens=total.accepted_tokens + after.accepted_tokens - before.accepted_tokens,
        num_drafts=_plus_difference(*drafts),
        accepted_per_position=per_position,
        generated_tokens=_plus_difference(*generated),
    )


def _plus_difference(total: int | None, before: int | None, after: int | None) -> int | None:
    if total is None or before is None or after is None:
        return None
    return total + after - before


def _per_position_fractions(
    before: SpeculationCounters, after: SpeculationCounters, num_drafts: int | None
) -> tuple[float, ...] | None:
    if not num_drafts or after.accepted_per_position is None:
        return None
    # A server may not list the positions before its first draft: they were 0.
    earlier = before.accepted_per_position or ()
    return tuple(
        (total - (earlier[i] if i < len(earlier) else 0)) / num_drafts
        for i, total in enumerate(after.accepted_per_position)
    )


def _first(totals: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    return next((int(totals[name]) for name in names if name in totals), None)


def _walk_states(node: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, dict):
        if "drafted_tokens_total" in node and "accepted_tokens_total" in node:
            yield node
        else:
            for child in node.values():
                yield from _walk_states(child)
    elif isinstance(node, list):
        for child in node:
            yield from _walk_states(child)
