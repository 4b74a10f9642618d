"""`draft-drift`: the draft no longer fits the traffic."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.doctor.checks.check import Check
from paceline.doctor.readings.observation import Observation
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
_GOODPUT = "paceline_governor_goodput_tokens_per_second"


def _judge(observation: Observation) -> Sequence[Finding]:
    page = observation.last.page
    samples = page.select(_LOST)
    if not samples:
        raise CannotJudge("the server has no governor that watches acceptance for drift")
    findings = []
    for sample in samples:
        labels = {key: sample.labels.get(key, "") for key in ("replica", "category")}
        if sample.value <= 0:
            continue
        now = page.total("paceline_draft_drift_acceptance", **labels)
        before = page.total("paceline_draft_drift_reference_acceptance", **labels)
        rate = page.total(_GOODPUT, replica=labels["replica"])
        findings.append(
            Finding(
                id="draft-drift",
                severity=Severity.WARNING,
                summary=(
                    f"The draft of {labels['replica']} no longer fits the requests of category "
                    f"{labels['category']}."
                ),
                evidence=tuple(
                    Evidence(name, round(value, 3))
                    for name, value in (("acceptance now", now), ("reference acceptance", before))
                    if value is not None
                ),
                cost=Cost(
                    Basis.ESTIMATED,
                    "the governor's estimate when it found the shift; its log has the interval",
                    CostUnit.TOKENS_PER_S,
                    sample.value,
                    share=sample.value / (sample.value + rate) if rate else None,
                    present_tokens_per_s=rate,
                ),
                cause="The traffic has changed since the draft was trained.",
                remedy="Train a draft on the present traffic and swap it in (paceline draft)",
                settings=("engine.draft",),
                subject=labels["replica"],
            )
        )
    return findings


CHECK = Check("draft-drift", "a draft that no longer fits the traffic", ("draft-drift",), _judge)
