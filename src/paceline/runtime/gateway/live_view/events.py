"""The events between two snapshots, such as "length 6 → 2: acceptance of position 2 fell to 0.31".

Pure: events are differences of views, and nothing else in the gateway reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.runtime.gateway.live_view.position_acceptance import PositionAcceptance
from paceline.runtime.gateway.live_view.values import Event, ReplicaView, Snapshot

_MIN_LOAD_RATIO = 1.5
"""A change of the number of requests by this factor is named as a cause."""
_MAX_JOINED = 5
"""Further replicas that join or leave at the same time are counted only."""


class EventFinder:
    """Finds events, and keeps per replica what explains them."""

    def __init__(self) -> None:
        self._acceptance: dict[str, PositionAcceptance] = {}
        self._governed: dict[str, ReplicaView] = {}
        """The last view with an answer of the governor: one missed answer hides no change."""

    def find(self, before: Snapshot | None, after: Snapshot) -> list[Event]:
        """The events since the previous snapshot, by replica; none for the first snapshot."""
        earlier = {} if before is None else {view.name: view for view in before.replicas}
        names = {view.name for view in after.replicas}
        self._acceptance = {n: kept for n, kept in self._acceptance.items() if n in names}
        self._governed = {n: kept for n, kept in self._governed.items() if n in names}
        found: list[Event] = []
        for view in after.replicas:
            acceptance = self._acceptance.setdefault(view.name, PositionAcceptance())
            if view.governor is not None:
                acceptance.add(view.governor)
            if view.name in earlier:
                found += _events_of(after.at_s, earlier[view.name], view)
            governed = self._governed.get(view.name)
            if governed is not None:
                found += _governor_events(after.at_s, governed, view, acceptance)
            if view.governor is not None:
                self._governed[view.name] = view
        if before is not None:
            joined = [view.name for view in after.replicas if view.name not in earlier]
            found += _membership(after.at_s, "joined", joined)
            found += _membership(after.at_s, "left", [n for n in earlier if n not in names])
        return found


def _events_of(at_s: float, before: ReplicaView, after: ReplicaView) -> Iterator[Event]:
    name = after.name
    if after.state != before.state:
        reason = f": {after.reason}" if after.reason else ""
        text = f"{before.state} → {after.state}{reason}"
        yield Event(at_s, "state", name, text, is_problem=after.state == "down")
    if (after.breaker == "closed") != (before.breaker == "closed"):
        # While a replica fails every trial, its breaker changes between open and half-open.
        text = f"circuit breaker {_shown(before.breaker)} → {_shown(after.breaker)}"
        yield Event(at_s, "breaker", name, text, is_problem=after.breaker != "closed")
    num_planned = after.num_planned_restarts - before.num_planned_restarts
    if num_planned > 0:
        yield Event(at_s, "restart", name, "the engine is restarted, as was asked for")
    if (after.num_restarts or 0) - (before.num_restarts or 0) > max(num_planned, 0):
        yield Event(at_s, "restart", name, "the engine was restarted", is_problem=True)
    if after.draft != before.draft and after.draft is not None:
        yield Event(at_s, "draft", name, f"drafts come from {after.draft}")


def _governor_events(
    at_s: float, view_before: ReplicaView, view: ReplicaView, acceptance: PositionAcceptance
) -> Iterator[Event]:
    before, after = view_before.governor, view.governor
    if before is None or after is None:
        return
    if after.policy != before.policy:
        text = f"policy {before.policy or 'unknown'} → {after.policy or 'unknown'}"
        yield Event(at_s, "policy", view.name, text)
    if after.uses_static_setting != before.uses_static_setting:
        text = "plans again"
        if after.uses_static_setting:
            text = after.reason or "the engine's static setting is in use"
        yield Event(at_s, "static_setting", view.name, text, after.uses_static_setting)
    if after.num_shifts > before.num_shifts:
        text = "the acceptance of the draft shifted lastingly; /admin/governor has the details"
        yield Event(at_s, "drift", view.name, text, is_problem=True)
    old, new = before.settled_length, after.settled_length
    if after.num_changes > before.num_changes and old is not None and new is not None:
        reason = after.change_reason or "no reason given"
        cause = _cause(view_before, view, old, new, acceptance) or reason
        change = f"length {old} → {new}" if new != old else f"length back at {new}"
        # A policy's own reason may begin with the length: "2 of 8: acceptance 0.61, 0.40".
        rest = cause.removeprefix(str(new)) if cause.startswith(f"{new} of ") else f": {cause}"
        yield Event(at_s, "length", view.name, f"{change}{rest}")


def _cause(
    before: ReplicaView, after: ReplicaView, old: int, new: int, acceptance: PositionAcceptance
) -> str | None:
    """What the counters show to have changed with the length; None to give the policy's reason."""
    if old == new:  # it changed and changed back
        return None
    change = acceptance.largest_change(falls=new < old)
    if change is not None:
        return str(change)
    load_before, load = before.num_running, after.num_running
    if load_before and load:
        grew = load >= load_before * _MIN_LOAD_RATIO
        shrank = load * _MIN_LOAD_RATIO <= load_before
        if (grew and new < old) or (shrank and new > old):
            return f"the engine computes {load} requests, {load_before} before"
    return None


def _membership(at_s: float, kind: str, names: Sequence[str]) -> Iterator[Event]:
    verb = "joined the replicas" if kind == "joined" else "left the replicas"
    for name in names[:_MAX_JOINED]:
        yield Event(at_s, kind, name, verb)
    num_more = len(names) - _MAX_JOINED
    if num_more > 0:
        yield Event(at_s, kind, f"{num_more} others", verb)


def _shown(breaker: str) -> str:
    return breaker.replace("_", "-")
