"""The metrics of a governor: their names, and how they follow from its state and give it back.

The state is the JSON object of the control channel. A gateway shows these metrics for each of its
replicas, and the plugin on the page of a vLLM server that runs without a gateway, so that
dashboards, alerts, `paceline doctor` and `paceline top` read either page. A new metric is a row in
`GOVERNOR_METRICS`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from paceline.foundation.command_line.printable import printable

_NUMBER = re.compile(r"\d+(\.\d+)?")
_MAX_TEXT_CHARS = 100
"""Longer than any reason of the policies that are built in."""
_MAX_LABELS = 64
"""More than a governor has categories or draft lengths."""
_ANY = "*"


@dataclass(frozen=True, slots=True)
class GovernorMetric:
    """One metric: a counter if its name ends in _total, else a gauge.

    A state comes from another process: a value of another type has no sample.

    >>> metric = GovernorMetric("x", "Steps.", ("steps_by_length", "*"), "draft_length")
    >>> metric.read({"steps_by_length": [7, 2]})
    {'0': 7.0, '1': 2.0}
    """

    name: str
    help: str
    path: tuple[str, ...]
    """Keys of the state down to the value. "*" stands for every key, or every index of a list,
    which becomes the value of the label."""
    label: str = ""
    """Empty without one."""
    is_text: bool = False
    """Whether the value is a text: it becomes the value of the label, with N for each number so
    that the number of series stays bounded, and the metric is 1."""

    def read(self, state: Mapping[str, Any]) -> dict[str, float]:
        """The values by label; by "" without a label; empty where the state has none."""
        if self.is_text:
            found = [value for _, value in _walk(state, self.path) if isinstance(value, str)]
            return {_text(_NUMBER.sub("N", value)): 1.0 for value in found if value}
        values = {_text(label): _number(value) for label, value in _walk(state, self.path)}
        return {label: value for label, value in values.items() if value is not None}


def _number_at(name: str, help_text: str, key: str) -> GovernorMetric:
    return GovernorMetric(f"paceline_governor_{name}", help_text, (key,))


def _by_length(name: str, help_text: str, key: str) -> GovernorMetric:
    return GovernorMetric(f"paceline_governor_{name}", help_text, (key, _ANY), "draft_length")


def _of_category(name: str, help_text: str, key: str) -> GovernorMetric:
    path = ("drift", "categories", _ANY, key)
    return GovernorMetric(f"paceline_draft_drift_{name}", help_text, path, "category")


GOVERNOR_METRICS = (
    _number_at(
        "draft_length", "Draft tokens per request in the governor's last plan.", "draft_length"
    ),
    _number_at("draft_length_ceiling", "Longest draft that the governor may plan.", "ceiling"),
    _number_at(
        "accepted_fraction",
        "Fraction of recent draft tokens that the target accepted.",
        "accepted_fraction",
    ),
    _number_at(
        "goodput_tokens_per_second",
        "Output tokens per second of the engine, measured over its last decode-only steps.",
        "goodput_tokens_per_s",
    ),
    _number_at(
        "expected_goodput_tokens_per_second",
        "Output tokens per second that the governor expects from the current draft length.",
        "expected_goodput_tokens_per_s",
    ),
    _number_at(
        "accepted_tokens_total", "Draft tokens that the target accepted.", "accepted_tokens_total"
    ),
    _number_at(
        "drafted_tokens_total", "Draft tokens that the target verified.", "drafted_tokens_total"
    ),
    GovernorMetric(
        "paceline_governor_accepted_by_position_total",
        "Draft tokens that the target accepted, by position from 0 on.",
        ("accepted_per_position_total", _ANY),
        "position",
    ),
    GovernorMetric(
        "paceline_governor_drafted_by_position_total",
        "Draft tokens that the target verified, by position from 0 on.",
        ("drafted_per_position_total", _ANY),
        "position",
    ),
    _number_at("steps_total", "Engine steps that the governor planned.", "steps_total"),
    _by_length(
        "length_steps_total", "Engine steps by the draft tokens that they drafted.", "length_steps"
    ),
    _by_length(
        "measured_step_seconds_total",
        "Time of the steps that the table of costs is compared with: clean ones without prompts.",
        "measured_step_seconds",
    ),
    _by_length(
        "table_step_seconds_total",
        "Time of the same steps by the table of costs measured at the engine's start.",
        "table_step_seconds",
    ),
    _number_at(
        "step_slowdown",
        "Time of recent steps over that by the table: the speed of the machine now.",
        "step_slowdown",
    ),
    _number_at(
        "safe_plan_steps_total",
        "Engine steps planned with the engine's static setting.",
        "safe_plan_steps_total",
    ),
    _number_at(
        "policy_errors_total",
        "Exceptions raised by the policy; each one led to a plan with the static setting.",
        "policy_errors_total",
    ),
    _number_at(
        "draft_length_changes_total",
        "Changes of the draft length, test drafts not counted.",
        "draft_length_changes_total",
    ),
    _number_at("seconds_total", "Time in engine steps.", "seconds_total"),
    _number_at("off_seconds_total", "Time in engine steps without drafting.", "off_seconds_total"),
    _number_at(
        "exploring_seconds_total",
        "Time in engine steps with a test draft.",
        "exploring_seconds_total",
    ),
    _number_at(
        "safe_plan_seconds_total",
        "Time in engine steps with the static setting.",
        "safe_plan_seconds_total",
    ),
    _of_category("events_total", "Shifts of draft acceptance that were found.", "events_total"),
    _of_category(
        "lost_tokens_per_second",
        "Output tokens per second that the last shift costs; negative where it gains, 0 without "
        "one in the last 48 half hours of requests.",
        "lost_tokens_per_s",
    ),
    _of_category(
        "lasting_lost_fraction",
        "Fraction of the engine's output tokens per second that is lost because the acceptance of "
        "the last half hour of requests is less than the best level of a day; 0 without a fall.",
        "lasting_lost_fraction",
    ),
    _of_category(
        "acceptance_best_level",
        "The best level of a day, where the last half hour has certainly less; no sample else.",
        "acceptance_best_level",
    ),
    _of_category(
        "acceptance_last_half_hour",
        "Acceptance in the last half hour, where it is certainly less than the best level.",
        "acceptance_last_half_hour",
    ),
    _of_category(
        "acceptance",
        "Acceptance of the first draft token, weighted by text, over about the last 50 requests.",
        "acceptance",
    ),
    _of_category(
        "reference_acceptance",
        "The acceptance that shifts are measured against; no sample while it is learned.",
        "reference_acceptance",
    ),
    _of_category(
        "evidence_fraction",
        "Evidence of a shift; one is found at 1. No sample while the reference is learned.",
        "evidence_fraction",
    ),
    GovernorMetric(
        "paceline_governor_policy_info",
        "Always 1; the policy in force: off and fixed hold the draft length.",
        ("policy",),
        "policy",
        is_text=True,
    ),
    GovernorMetric(
        "paceline_governor_last_change_info",
        "Always 1; the reason of the last change of the draft length, with N for each number.",
        ("last_change_reason",),
        "reason",
        is_text=True,
    ),
    GovernorMetric(
        "paceline_governor_safe_plan_info",
        "1 while the engine runs with its static setting, by the reason; no sample else.",
        ("safe_plan_reason",),
        "reason",
        is_text=True,
    ),
    GovernorMetric(
        "paceline_governor_off_info",
        "1 where a vLLM server runs without the governor that was asked for, by the reason; no "
        "sample else.",
        ("off_reason",),
        "reason",
        is_text=True,
    ),
)


def state_of(samples: Callable[[str], Iterable[tuple[Mapping[str, str], float]]]) -> dict[str, Any]:
    """The part of a governor's state that a page of metrics shows; empty without a governor.

    `samples` gives the labels and values of a metric. Lists become mappings from the index, and a
    text has N for each number.
    """
    state: dict[str, Any] = {}
    for metric in GOVERNOR_METRICS:
        for labels, value in samples(metric.name):
            label = labels.get(metric.label, "")
            if not metric.is_text:
                _put(state, [label if key == _ANY else key for key in metric.path], value)
            elif value == 1.0:  # a series of an earlier text may be left, with the value 0
                _put(state, metric.path, label)
    return state


def _walk(state: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Label and value of everything that the path leads to."""
    for position, key in enumerate(path):
        if key == _ANY:
            rest = path[position + 1 :]
            for label, part in islice(_items(state), _MAX_LABELS):
                for _, value in _walk(part, rest):
                    yield str(label), value
            return
        if not isinstance(state, Mapping):
            return
        state = state.get(key)
    yield "", state


def _items(part: object) -> Iterable[tuple[Any, Any]]:
    if isinstance(part, Mapping):
        return part.items()
    return enumerate(part) if isinstance(part, list) else ()


def _put(state: dict[str, Any], path: Iterable[str], value: float | str) -> None:
    *parents, last = path
    for key in parents:
        state = state.setdefault(key, {})
    state[last] = value


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None  # also leaves out NaN


def _text(value: str) -> str:
    """What another process reported, as the value of a label."""
    return printable(value[:_MAX_TEXT_CHARS])
