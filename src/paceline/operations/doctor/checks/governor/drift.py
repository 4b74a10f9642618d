"""`draft-drift`: the draft fits the traffic less than it did.

What wins the lost tokens back is a new draft, which takes time to train. So what counts is the last
half hour of requests against the best level of a day; a single shift is a remark. A gateway that
does not compare half hours gives warnings about shifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Severity,
)

_LOST = "paceline_draft_drift_lost_tokens_per_second"
_LASTING_LOST = "paceline_draft_drift_lasting_lost_fraction"
_BEST = "paceline_draft_drift_acceptance_best_level"
_LAST = "paceline_draft_drift_acceptance_last_half_hour"
_NOW = "paceline_draft_drift_acceptance"
_GOODPUT = "paceline_governor_goodput_tokens_per_second"
MIN_LOST_FRACTION = 0.05
"""As the alert `PacelineDraftNoLongerFits`; a test holds them equal."""
_BACK_WITHIN = 0.02
"""Of the acceptance before a shift: changes up to this are none (`shift_detector.MIN_SLACK`)."""
_TRAIN = "Train a draft on the present traffic and swap it in (paceline draft)"


def _judge(observation: Observation) -> Sequence[Finding]:
    page = observation.last.page
    samples = page.select(_LOST)
    if not samples:
        raise CannotJudge("the server has no governor that watches acceptance for drift")
    findings = []
    for sample in samples:
        replica, category = sample.labels.get("replica", ""), sample.labels.get("category", "")
        lasting = page.total(_LASTING_LOST, replica=replica, category=category)
        if lasting is not None and lasting > MIN_LOST_FRACTION:
            findings.append(_lasting_fall(page, replica, category, lasting))
        elif sample.value > 0:
            event = _last_event(observation.last.governors.get(replica, {}), category)
            now = page.total(_NOW, replica=replica, category=category)
            if not _is_back(now, event):
                found = _last_shift(page, replica, category, sample.value, event)
                findings.append(found if lasting is None else _as_remark(found))
    return findings


def _lasting_fall(page: MetricsPage, replica: str, category: str, lost_fraction: float) -> Finding:
    best, last, now = (
        page.total(name, replica=replica, category=category) for name in (_BEST, _LAST, _NOW)
    )
    rate = page.total(_GOODPUT, replica=replica)
    amount, unit = 100 * lost_fraction, CostUnit.PERCENT_OF_CAPACITY
    if rate:
        amount, unit = rate * lost_fraction / (1 - lost_fraction), CostUnit.TOKENS_PER_S
    return _finding(
        replica,
        summary=f"The requests of category {category} accepted fewer draft tokens of {replica} in "
        "the last half hour than at the best level of a day.",
        evidence=(
            ("acceptance at the best level", best),
            ("acceptance in the last half hour", last),
            ("acceptance now", now),
        ),
        cost=Cost(
            Basis.ESTIMATED,
            "what the best draft length would give with either acceptance, at the present load",
            unit,
            amount,
            share=lost_fraction,
            present_tokens_per_s=rate or None,
        ),
    )


def _last_shift(
    page: MetricsPage, replica: str, category: str, lost: float, event: Mapping[str, Any]
) -> Finding:
    rate = page.total(_GOODPUT, replica=replica)
    return _finding(
        replica,
        summary=f"The acceptance of category {category} on {replica} has fallen.",
        evidence=(
            ("acceptance before", event.get("acceptance_before")),
            ("acceptance after", event.get("acceptance_now")),
            ("acceptance now", page.total(_NOW, replica=replica, category=category)),
            ("found at", event.get("at")),
        ),
        cost=Cost(
            Basis.ESTIMATED,
            "the governor's estimate when it found the shift; its log has the interval",
            CostUnit.TOKENS_PER_S,
            lost,
            share=lost / (lost + rate) if rate else None,
            present_tokens_per_s=rate,
        ),
    )


def _as_remark(finding: Finding) -> Finding:
    return replace(
        finding,
        severity=Severity.INFO,
        remedy="None unless a whole half hour of requests stays below the best level: a draft "
        "takes as long to train",
        settings=(),
    )


def _finding(
    replica: str, *, summary: str, evidence: Sequence[tuple[str, Any]], cost: Cost
) -> Finding:
    return Finding(
        id="draft-drift",
        severity=Severity.WARNING,
        summary=summary,
        evidence=tuple(
            Evidence(name, round(value, 3) if isinstance(value, float) else str(value))
            for name, value in evidence
            if value is not None
        ),
        cost=cost,
        cause="The traffic has changed.",
        remedy=_TRAIN,
        settings=("engine.draft",),
        subject=replica,
    )


def _last_event(governor: Mapping[str, Any], category: str) -> Mapping[str, Any]:
    """The last shift of the category that the governor remembers; empty without one."""
    drift = governor.get("drift")
    events = drift.get("events") if isinstance(drift, Mapping) else None
    of_category = [
        one
        for one in (events if isinstance(events, Sequence) else ())
        if isinstance(one, Mapping) and one.get("category") == category
    ]
    return of_category[-1] if of_category else {}


def _is_back(now: float | None, event: Mapping[str, Any]) -> bool:
    """Whether acceptance is where it was before the shift."""
    before = event.get("acceptance_before")
    return now is not None and isinstance(before, float) and now > before - _BACK_WITHIN


CHECK = Check(
    "draft-drift", "a draft that fits the traffic less than before", ("draft-drift",), _judge
)
