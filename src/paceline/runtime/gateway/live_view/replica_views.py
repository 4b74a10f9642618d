"""From what is known of one replica to a `ReplicaView`.

Pure. The state of a governor comes from another process: a value of another type counts as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.foundation.command_line.printable import well_formed
from paceline.runtime.gateway.fleet import ReplicaStatus
from paceline.runtime.gateway.live_view.values import GovernorView, ReplicaView
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.signals import ReplicaSignals

_MAX_TEXT_CHARS = 200
_MAX_POSITIONS = 64
_MAX_NUMBER = 2**53
"""Up to here a browser reads integers exactly."""


@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """What is known of one replica at one moment."""

    status: ReplicaStatus
    signals: ReplicaSignals
    num_in_flight: int
    breaker: BreakerState
    governor: Mapping[str, object] | None = None
    """State of its governor, as in /admin/governor; None without an answer."""
    is_load_current: bool = True
    """Whether its last load is no older than `load_age_max_s`."""


@dataclass(frozen=True, slots=True)
class GeneratedTokens:
    """Output tokens of an engine at its last two readings, and the rate between them."""

    read_at_s: float
    total: int
    per_s: float | None = None

    def then(self, read_at_s: float, total: int) -> GeneratedTokens:
        """With a newer reading; the same where there is none. A restart counts from zero."""
        seconds = read_at_s - self.read_at_s
        if seconds <= 0:
            return self
        num_new = total - self.total if total >= self.total else total
        return GeneratedTokens(read_at_s, total, num_new / seconds if num_new else None)


def view_replica(
    reading: ReplicaReading, before: ReplicaView | None, generated: GeneratedTokens | None
) -> ReplicaView:
    """The view; `before` is the last one with a governor, `generated` its own count of tokens."""
    status, signals = reading.status, reading.signals
    replica, state = status.replica, reading.governor
    governor = None if state is None else view_governor(state)
    governor_before = None if before is None else before.governor
    is_at_work = _is_at_work(governor, governor_before)
    if governor is None or state is None:
        length = accepted = expected = None
        tokens_per_s = None if generated is None else generated.per_s
    else:
        length = _count(state.get("settled_length"))
        length = _count(state.get("draft_length")) if length is None else length
        accepted = _number(state.get("accepted_fraction"))
        tokens_per_s = _number(state.get("goodput_tokens_per_s")) if is_at_work else None
        expected = _expected(state, governor, before) if is_at_work else None
    return ReplicaView(
        name=replica.name,
        state=replica.state,
        reason=well_formed(status.reason[:_MAX_TEXT_CHARS]),
        breaker=reading.breaker.value,
        model=replica.model,
        draft=replica.draft,
        num_in_flight=reading.num_in_flight,
        num_running=signals.num_running,
        num_waiting=signals.num_waiting,
        kv_usage_fraction=signals.kv_usage_fraction,
        num_restarts=replica.num_restarts,
        num_planned_restarts=replica.num_planned_restarts,
        draft_length=length,
        accepted_fraction=signals.accepted_fraction if accepted is None else accepted,
        tokens_per_s=tokens_per_s,
        expected_tokens_per_s=expected,
        governor=governor,
    )


def view_governor(state: Mapping[str, object]) -> GovernorView:
    """The governor's part of the view."""
    return GovernorView(
        policy=_text(state.get("policy")),
        settled_length=_count(state.get("settled_length")),
        ceiling=_count(state.get("ceiling")),
        reason=_text(state.get("reason")),
        uses_static_setting=state.get("safe_plan") is True,
        num_changes=_count(state.get("draft_length_changes_total")) or 0,
        change_reason=_text(state.get("last_change_reason")),
        num_steps=_count(state.get("steps_total")),
        num_drafts=_count(state.get("num_drafts_total")) or 0,
        accepted_per_position=_counts(state.get("accepted_per_position_total")),
        num_shifts=_num_shifts(state.get("drift")),
        forecast_step_s=_numbers(state.get("forecast_step_seconds")),
        step_slowdown=_number(state.get("step_slowdown")),
    )


def _is_at_work(governor: GovernorView | None, before: GovernorView | None) -> bool:
    """Whether steps were computed since the previous view; True where that is unknown."""
    if governor is None or before is None or governor.num_steps is None:
        return True
    return governor.num_steps != before.num_steps


def _expected(
    state: Mapping[str, object], governor: GovernorView, before: ReplicaView | None
) -> float | None:
    """The expectation. A step that only tries a length has none: the last one still holds."""
    expected = _number(state.get("expected_goodput_tokens_per_s"))
    if expected is not None or governor.uses_static_setting:
        return expected
    if before is None or before.governor is None or before.governor.policy != governor.policy:
        return None
    return before.expected_tokens_per_s


def _num_shifts(drift: object) -> int:
    categories = drift.get("categories") if isinstance(drift, Mapping) else None
    if not isinstance(categories, Mapping):
        return 0
    found = (one.get("events_total") for one in categories.values() if isinstance(one, Mapping))
    return sum(_count(number) or 0 for number in found)


def _counts(values: object) -> tuple[int, ...]:
    """The counts of a list; empty if one of them is unknown."""
    if not isinstance(values, list):
        return ()
    counts = [_count(value) for value in values[:_MAX_POSITIONS]]
    return () if None in counts else tuple(count for count in counts if count is not None)


def _numbers(values: object) -> tuple[float, ...]:
    """The numbers of a list; empty if one of them is unknown."""
    if not isinstance(values, list):
        return ()
    found = [_number(value) for value in values[: _MAX_POSITIONS + 1]]
    return () if None in found else tuple(number for number in found if number is not None)


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or type(value) is bool:
        return None
    # A larger integer has no float; NaN would make a sum over all replicas unknown.
    return float(value) if abs(value) <= _MAX_NUMBER else None


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_NUMBER else None


def _text(value: object) -> str | None:
    """The text, cut."""
    return well_formed(value[:_MAX_TEXT_CHARS]) if isinstance(value, str) else None
