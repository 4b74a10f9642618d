"""`Check`: one decision from an observation to findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Finding, Lacking


@dataclass(frozen=True, slots=True)
class Check:
    """Pure: no clock, no network."""

    id: str
    about: str
    """What it looks for, in one line."""
    finding_ids: tuple[str, ...]
    """The ids that its findings can have."""
    judge: Callable[[Observation], Sequence[Finding]]
    """The findings, none if all is well. Raises CannotJudge if the observation cannot say."""


def for_each_engine(
    observation: Observation,
    judge: Callable[[str, Sequence[EngineReading]], Finding | None],
) -> list[Finding]:
    """The findings of all engines. Raises CannotJudge if no engine could be judged."""
    findings: list[Finding] = []
    reasons: list[str] = []
    lacking: list[Lacking | None] = []
    for name, readings in observation.engines.items():
        try:
            finding = judge(name, readings)
        except CannotJudge as reason:
            reasons.append(f"{name}: {reason}")
            lacking.append(reason.lacking)
        else:
            if finding is not None:
                findings.append(finding)
    if not observation.engines:
        raise CannotJudge("the server shows no engine")
    if len(reasons) == len(observation.engines):
        raise CannotJudge("; ".join(reasons[:3]), lacking[0])
    return findings
