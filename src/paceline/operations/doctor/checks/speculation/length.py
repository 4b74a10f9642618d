"""`draft-length`: drafts that are too long or too short for the load."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check, for_each_engine
from paceline.operations.doctor.estimates.draft_cost import slowdown_of
from paceline.operations.doctor.estimates.drafting import Drafting, drafting_of
from paceline.operations.doctor.estimates.gain import BestLength, best_length, gain_of
from paceline.operations.doctor.readings.engines import EngineReading
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

_TOO_LONG, _TOO_SHORT = "draft-too-long", "draft-too-short"
_MIN_GAIN = 1.03
"""Below, the best length is within the error of the acceptance. Chosen empirically."""


def _judge(observation: Observation) -> Sequence[Finding]:
    return for_each_engine(observation, _judge_one)


def _judge_one(name: str, readings: Sequence[EngineReading]) -> Finding | None:
    if readings[-1].chooses_its_length:
        return None  # the policy does
    drafting = drafting_of(readings)
    if not drafting.has_one_length:
        raise CannotJudge("the drafts differ in length, or their positions are not shown")
    slowdown = slowdown_of(drafting)
    best = best_length(drafting, slowdown)
    present = len(drafting.reached)
    if best.longest == 0 or gain_of(drafting, slowdown).high < 1:
        return None  # `speculation-loss` reports it
    is_long, is_short = best.longest < present, best.shortest > present
    if not is_long and not is_short:
        if best.shortest == best.longest == present:
            return None
        raise CannotJudge(
            f"the best length is between {best.shortest} and {best.longest} and the engine drafts "
            f"{present} ({slowdown.assumption})"
        )
    if best.factor.low < _MIN_GAIN:
        return None
    return _finding(name, readings, drafting, best, slowdown.assumption)


def _finding(
    name: str,
    readings: Sequence[EngineReading],
    drafting: Drafting,
    best: BestLength,
    assumption: str,
) -> Finding:
    present = len(drafting.reached)
    is_long = best.longest < present
    lengths = (
        f"{best.longest}" if best.shortest == best.longest else f"{best.shortest} to {best.longest}"
    )
    gains = [drafting.tokens_per_s * (factor - 1) for factor in (
        best.factor.low, best.factor.middle, best.factor.high)]  # fmt: skip
    positions = ", ".join(f"{share:.2f}" for share in drafting.reached)
    is_governed = readings[-1].policy is not None
    return Finding(
        id=_TOO_LONG if is_long else _TOO_SHORT,
        severity=Severity.WARNING,
        summary=(
            f"{name} drafts {present} tokens; {lengths} would give "
            f"{100 * (best.factor.low - 1):.0f} to {100 * (best.factor.high - 1):.0f} % more."
        ),
        evidence=(
            Evidence("draft length", present),
            Evidence("drafts accepted up to each position", positions),
            Evidence("requests in decode", round(drafting.num_requests, 1)),
            Evidence("step time", round(1e3 * drafting.step_s, 2), "ms"),
        ),
        cost=Cost(
            Basis.ESTIMATED, assumption, CostUnit.TOKENS_PER_S, gains[1], gains[0], gains[2],
            share=1 - 1 / best.factor.middle, present_tokens_per_s=drafting.tokens_per_s,
        ),
        cause=(
            "The last draft tokens are accepted too rarely to pay for their verification."
            if is_long
            else "The last draft token is still accepted often enough to pay for one more."
        ),
        remedy=(
            "Let the governor choose: paceline governor set --policy goodput"
            if is_governed
            else f"Draft {lengths} tokens, or let a governor choose the length at every step"
        ),
        settings=(
            ("engine.policy", "engine.draft_length_max")
            if is_governed
            else ("speculative_config.num_speculative_tokens",)
        ),
        subject=name,
    )  # fmt: skip


CHECK = Check(
    "draft-length",
    "drafts that are too long or too short for the load",
    (_TOO_LONG, _TOO_SHORT),
    _judge,
)
