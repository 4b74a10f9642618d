"""`draft-drift`: the draft fits the traffic less than it did.

What wins the lost tokens back is a new draft, which takes time to train. So a shift is a warning
where the governor says that it has lasted, after a level that had lasted, too; until then it is a
remark. A gateway that does not say how long shifts last gives warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.doctor.checks.check import Check
from paceline.doctor.readings.observation import Observation
from paceline.doctor.readings.page import MetricsPage
from paceline.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Severity,
)

_LOST = "paceline_draft_drift_lost_tokens_per_second"
_LASTING_LOST = "paceline_draft_drift_lasting_lost_tokens_per_second"
_LASTING_BEFORE = "paceline_draft_drift_acceptance_before_lasting"
_NOW = "paceline_draft_drift_acceptance"
_GOODPUT = "paceline_governor_goodput_tokens_per_second"
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
        if lasting is not None and lasting > 0:
            findings.append(_lasting_shift(page, replica, category, lasting))
        elif sample.value > 0:
            events = _events(observation.last.governors.get(replica, {}), category)
            found = _last_shift(page, replica, category, sample.value, events)
            findings.append(found if lasting is None else _as_remark(found))
    return findings


def _lasting_shift(page: MetricsPage, replica: str, category: str, lost: float) -> Finding:
    before = page.total(_LASTING_BEFORE, replica=replica, category=category)
    now = page.total(_NOW, replica=replica, category=category)
    return _finding(
        page,
        replica,
        lost,
        how="the governor's estimate at the load when it found the shift, times the category's "
        "present share of the work",
        summary=f"The requests of category {category} have accepted fewer draft tokens of "
        f"{replica} for half an hour than for as long before.",
        evidence=(("acceptance before", before), ("acceptance now", now)),
    )


def _last_shift(
    page: MetricsPage, replica: str, category: str, lost: float, events: Sequence[Mapping[str, Any]]
) -> Finding:
    event = events[-1] if events else {}
    return _finding(
        page,
        replica,
        lost,
        how="the governor's estimate when it found the shift; its log has the interval",
        summary=f"The acceptance of category {category} on {replica} has fallen.",
        evidence=(
            ("acceptance before", event.get("acceptance_before")),
            ("acceptance after", event.get("acceptance_now")),
            ("acceptance now", page.total(_NOW, replica=replica, category=category)),
            ("found at", event.get("at")),
        ),
    )


def _as_remark(finding: Finding) -> Finding:
    return replace(
        finding,
        severity=Severity.INFO,
        remedy="None unless the shift and the level before it each last half an hour: a draft "
        "takes as long to train",
        settings=(),
    )


def _finding(
    page: MetricsPage,
    replica: str,
    lost: float,
    *,
    how: str,
    summary: str,
    evidence: Sequence[tuple[str, Any]],
) -> Finding:
    rate = page.total(_GOODPUT, replica=replica)
    return Finding(
        id="draft-drift",
        severity=Severity.WARNING,
        summary=summary,
        evidence=tuple(
            Evidence(name, round(value, 3) if isinstance(value, float) else str(value))
            for name, value in evidence
            if value is not None
        ),
        cost=Cost(
            Basis.ESTIMATED,
            how,
            CostUnit.TOKENS_PER_S,
            lost,
            share=lost / (lost + rate) if rate else None,
            present_tokens_per_s=rate,
        ),
        cause="The traffic has changed.",
        remedy=_TRAIN,
        settings=("engine.draft",),
        subject=replica,
    )


def _events(governor: Mapping[str, Any], category: str) -> Sequence[Mapping[str, Any]]:
    """The shifts of the category that the governor remembers, in order."""
    drift = governor.get("drift")
    events = drift.get("events") if isinstance(drift, Mapping) else None
    if not isinstance(events, Sequence):
        return ()
    return [one for one in events if isinstance(one, Mapping) and one.get("category") == category]


CHECK = Check(
    "draft-drift", "a draft that fits the traffic less than before", ("draft-drift",), _judge
)
