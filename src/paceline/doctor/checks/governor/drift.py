"""`draft-drift`: the draft fits the traffic less than it did.

A shift costs from its first minute on, and is a remark from then on. What would win the tokens back
is a new draft, and that is worth a warning once the traffic stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

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

LASTING_SHIFT_S = 1800
"""As the alert `PacelineDraftNoLongerFits`, which says why; a test holds them equal."""
_PREFIX = "paceline_draft_drift_"
_LOST = f"{_PREFIX}lost_tokens_per_second"
_GOODPUT = "paceline_governor_goodput_tokens_per_second"


def _judge(observation: Observation) -> Sequence[Finding]:
    page = observation.last.page
    samples = page.select(_LOST)
    if not samples:
        raise CannotJudge("the server has no governor that watches acceptance for drift")
    return [
        _finding(page, sample.labels.get("replica", ""), sample.labels.get("category", ""), lost)
        for sample in samples
        if (lost := sample.value) > 0
    ]


def _finding(page: MetricsPage, replica: str, category: str, lost: float) -> Finding:
    def shown(figure: str) -> float | None:
        return page.total(f"{_PREFIX}{figure}", replica=replica, category=category)

    rate = page.total(_GOODPUT, replica=replica)
    lasting_s = shown("lasting_seconds") or 0.0
    is_lasting = lasting_s >= LASTING_SHIFT_S
    return Finding(
        id="draft-drift",
        severity=Severity.WARNING if is_lasting else Severity.INFO,
        summary=(
            f"The requests of category {category} accept fewer draft tokens of {replica} than "
            + ("before, and that lasts." if is_lasting else "a short while ago.")
        ),
        evidence=tuple(
            Evidence(name, round(value, 3), unit)
            for name, value, unit in (
                ("acceptance before", shown("acceptance_before_shift"), ""),
                ("acceptance now", shown("acceptance"), ""),
                ("both have lasted", lasting_s, "s"),
            )
            if value is not None
        ),
        cost=Cost(
            Basis.ESTIMATED,
            "the governor's estimate when it found the shift, by how much of it is left; its log "
            "has the interval",
            CostUnit.TOKENS_PER_S,
            lost,
            share=lost / (lost + rate) if rate else None,
            present_tokens_per_s=rate,
        ),
        cause="The traffic has changed.",
        remedy=(
            "Train a draft on the present traffic and swap it in (paceline draft)"
            if is_lasting
            else f"None before both have lasted {LASTING_SHIFT_S // 60} minutes: drafts take time"
        ),
        settings=("engine.draft",) if is_lasting else (),
        subject=replica,
    )


CHECK = Check(
    "draft-drift", "a draft that fits the traffic less than before", ("draft-drift",), _judge
)
