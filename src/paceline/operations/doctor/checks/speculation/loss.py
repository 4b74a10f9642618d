"""`speculation-loss`: drafts cost more than they gain, or hardly gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.operations.doctor.checks.check import Check, for_each_engine
from paceline.operations.doctor.estimates.draft_cost import Slowdown, slowdown_of
from paceline.operations.doctor.estimates.drafting import Drafting, drafting_of
from paceline.operations.doctor.estimates.gain import BestLength, best_length, gain_of
from paceline.operations.doctor.estimates.interval import Interval
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.readings.probe_result import MeasuredGain, ProbeResult
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Lacking,
    Severity,
)

_LOSES, _HARDLY_GAINS = "speculation-loses", "speculation-hardly-gains"
_SMALL_GAIN = 1.1
"""A gain that cannot exceed this is reported. Chosen empirically."""
_REMEDY = (
    "Let a governor choose the length (paceline serve, or its plugin in vllm serve); or draft "
    "less, draft with a smaller model of the same family or with EAGLE, or turn speculation off"
)
_SETTINGS = ("speculative_config.num_speculative_tokens", "speculative_config.model")
_GOVERNED_REMEDY = "Let the governor choose the length: paceline governor set --policy goodput"
_GOVERNED_SETTINGS = ("engine.policy", "engine.draft_length_max")


def _judge(observation: Observation) -> Sequence[Finding]:
    probe = observation.probe
    if probe is not None and probe.gain is not None:
        return _measured(probe.gain, probe, is_governed=bool(observation.last.governors))
    try:
        found = for_each_engine(observation, _estimated)
    except CannotJudge as reason:
        if probe is None or reason.lacking is not Lacking.PROBE:
            raise
        raise CannotJudge(
            f"the gain of drafts was not measured: {probe.gain_reason}", Lacking.REQUESTS
        ) from None
    if probe is None:
        return found
    workload = Evidence("workload of the probe", probe.workload)
    return [replace(one, evidence=(*one.evidence, workload)) for one in found]


def _measured(gain: MeasuredGain, probe: ProbeResult, *, is_governed: bool) -> Sequence[Finding]:
    if gain.low >= 1:
        return ()
    if gain.high >= 1:
        raise CannotJudge(
            f"drafts change the throughput by a factor of {gain.value:.2f} "
            f"({gain.low:.2f} to {gain.high:.2f}, {gain.num_pairs} pairs), which is no certain "
            "loss",
            Lacking.REQUESTS,
        )
    workload = f"{probe.workload} at temperature {probe.temperature:g}"
    return [
        Finding(
            id=_LOSES,
            severity=Severity.WARNING,
            summary=(
                f"Speculation makes the deployment slower: {gain.value:.2f} times the tokens/s "
                f"that it gives without drafts, on the workload {workload}."
            ),
            evidence=(
                Evidence("workload", workload),
                Evidence("tokens/s over those without drafts", round(gain.value, 3)),
                *_steps(gain),
                Evidence("comparisons", gain.num_pairs),
                Evidence("requests at a time", gain.concurrency),
            ),
            cost=_cost(
                gain.tokens_per_s, Interval(gain.low, gain.high),
                Basis.ESTIMATED if gain.is_estimated else Basis.MEASURED, gain.how, gain.value,
            ),
            cause="Verifying the drafts takes more time than the accepted ones save.",
            remedy=f"Measure real requests before drafts are switched off (--prompts). "
            f"{_GOVERNED_REMEDY if is_governed else _REMEDY}",
            settings=_GOVERNED_SETTINGS if is_governed else _SETTINGS,
        )
    ]  # fmt: skip


def _steps(gain: MeasuredGain) -> Sequence[Evidence]:
    """The times that an estimate rests on; empty for a measured gain."""
    if gain.step_ms is None or gain.undrafted_step_ms is None:
        return ()
    low, high = (f"{bound:.3g}" for bound in gain.undrafted_step_ms)
    without = low if low == high else f"{low} to {high}"
    return (
        Evidence("step with drafts", f"{gain.step_ms:.3g}", "ms"),
        Evidence("without", without, "ms"),
    )


def _estimated(name: str, readings: Sequence[EngineReading]) -> Finding | None:
    if readings[-1].chooses_its_length:
        raise CannotJudge(
            f"the policy {readings[-1].policy} adapts the draft length, so that only switching "
            "drafts off and on shows what they gain",
            Lacking.PROBE,
        )
    drafting = drafting_of(readings)
    slowdown = slowdown_of(drafting)
    gain = gain_of(drafting, slowdown)
    is_governed = readings[-1].policy is not None
    if gain.low >= 1:
        return None
    loses = gain.high < 1
    best = best_length(drafting, slowdown) if drafting.has_one_length else None
    a_shorter_one_gains = best is not None and 0 < best.longest < len(drafting.reached)
    if not loses and (gain.high > _SMALL_GAIN or a_shorter_one_gains):
        raise CannotJudge(
            f"drafts change the throughput by a factor between {gain.low:.2f} and {gain.high:.2f} "
            f"({slowdown.assumption}); a load that changes narrows it",
            Lacking.REQUESTS,
        )
    verdict = (
        f"slower: {gain.low:.2f} to {gain.high:.2f} times the tokens/s without drafts."
        if loses
        else f"at most {100 * (gain.high - 1):.0f} % faster, and perhaps slower."
    )
    return Finding(
        id=_LOSES if loses else _HARDLY_GAINS,
        severity=Severity.WARNING if loses else Severity.INFO,
        summary=f"Speculation makes {name} {verdict}",
        evidence=_evidence(drafting, slowdown, best),
        cost=_cost(drafting.tokens_per_s, gain, Basis.ESTIMATED, slowdown.assumption),
        cause=(
            f"The target accepts {drafting.accepted_per_draft:.2f} of {drafting.draft_length:.1f} "
            "draft tokens; the rejected ones are computed for nothing."
        ),
        remedy=_GOVERNED_REMEDY if is_governed else _REMEDY,
        settings=_GOVERNED_SETTINGS if is_governed else _SETTINGS,
        subject=name,
    )


def _evidence(
    drafting: Drafting, slowdown: Slowdown, best: BestLength | None
) -> tuple[Evidence, ...]:
    factor = slowdown.factor
    return (
        Evidence("drafts verified", drafting.drafts),
        Evidence("draft tokens per draft", round(drafting.draft_length, 2)),
        Evidence("accepted tokens per draft", round(drafting.accepted_per_draft, 3)),
        Evidence("step time", round(1e3 * drafting.step_s, 2), "ms"),
        Evidence("requests in decode", round(drafting.num_requests, 1)),
        Evidence("step time over that without drafts", f"{factor.low:.2f} to {factor.high:.2f}"),
        *((Evidence("best draft length", _lengths(best)),) if best is not None else ()),
    )


def _lengths(best: BestLength) -> str:
    return (
        str(best.longest) if best.shortest == best.longest else f"{best.shortest} to {best.longest}"
    )


def _cost(
    tokens_per_s: float, gain: Interval, basis: Basis, how: str, value: float | None = None
) -> Cost:
    """The tokens/s that the deployment would give in addition without drafts."""
    middle = gain.middle if value is None else value
    lost = [tokens_per_s * (1 / factor - 1) for factor in (gain.high, middle, gain.low)]
    return Cost(
        basis=basis,
        how=how,
        unit=CostUnit.TOKENS_PER_S,
        amount=lost[1],
        low=lost[0],
        high=lost[2],
        share=min(1.0, max(0.0, 1 - middle)),
        present_tokens_per_s=tokens_per_s,
    )


CHECK = Check(
    "speculation-loss",
    "drafts that cost more than they gain",
    (_LOSES, _HARDLY_GAINS),
    _judge,
)
