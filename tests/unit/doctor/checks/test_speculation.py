"""Checks of drafts, on engines whose gain is known."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.operations.doctor.checks.speculation import data_parallel, length, loss
from paceline.operations.doctor.values import Basis, CannotJudge, Finding, Severity
from unit.doctor.gateways import observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

HARD_TEXT = SimulatedEngine(
    draft_ms=1.0, token_ms=1.0, reached=(0.1, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
)
"""K = 8: at load 4, 72 ms a step instead of 24 ms, for 1.11 tokens."""


def _only(findings: object) -> Finding:
    assert isinstance(findings, list)
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


def test_a_loss_is_found_and_its_interval_holds_the_truth() -> None:
    finding = _only(loss.CHECK.judge(observe_vllm(HARD_TEXT)))
    assert (finding.id, finding.severity) == ("speculation-loses", Severity.WARNING)
    cost = finding.cost
    assert cost.basis is Basis.ESTIMATED
    # Lost at every load of the observation: tokens/s without drafts less those with.
    rates = [
        (1e3 * load / HARD_TEXT.step_ms(load, 0), 1e3 * load * 1.11 / HARD_TEXT.step_ms(load))
        for load in HARD_TEXT.loads
    ]
    lost = sum(without - with_it for without, with_it in rates) / len(rates)
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low < lost < cost.high
    assert "best draft length" in {one.name for one in finding.evidence}


def test_drafts_that_pay_are_no_finding() -> None:
    engine = SimulatedEngine()
    assert min(engine.gain(load) for load in engine.loads) > 2
    assert loss.CHECK.judge(observe_vllm(engine)) == []


def test_without_a_change_of_load_the_interval_is_too_wide_to_judge() -> None:
    steady = dataclasses.replace(HARD_TEXT, loads=(4,) * 15, reached=(0.6, 0.3, 0.1, 0.05))
    with pytest.raises(CannotJudge, match="a load that changes narrows it"):
        loss.CHECK.judge(observe_vllm(steady))


def test_drafts_that_are_never_accepted_lose_at_any_cost() -> None:
    steady = dataclasses.replace(HARD_TEXT, loads=(4,) * 15, reached=(0.0,) * 8)
    assert _only(loss.CHECK.judge(observe_vllm(steady))).id == "speculation-loses"


def test_drafts_that_can_hardly_gain_are_a_remark() -> None:
    steady = dataclasses.replace(HARD_TEXT, loads=(4,) * 15, reached=(0.05,))
    finding = _only(loss.CHECK.judge(observe_vllm(steady)))
    assert (finding.id, finding.severity) == ("speculation-hardly-gains", Severity.INFO)


def test_prefill_is_not_taken_for_load() -> None:
    """Busy seconds have more prompts, and only these make their steps longer."""
    prompts = tuple(20 * load + 7 * (second % 3) for second, load in enumerate(HARD_TEXT.loads))
    engine = dataclasses.replace(
        HARD_TEXT, token_ms=0.0, reached=(0.6, 0.3, 0.1), prompts_per_step=prompts
    )
    with pytest.raises(CannotJudge, match="the load did not change enough to show more"):
        loss.CHECK.judge(observe_vllm(engine))


def test_an_engine_without_drafts_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="without speculation"):
        loss.CHECK.judge(observe_vllm(SimulatedEngine(reached=())))


def test_few_drafts_are_not_judged() -> None:
    with pytest.raises(CannotJudge, match="100 are needed"):
        loss.CHECK.judge(observe_vllm(SimulatedEngine(loads=(0, 1))))


def test_a_measured_loss_counts_more_than_an_estimate() -> None:
    gain = dataclasses.replace(probed().gain, value=0.5, low=0.4, high=0.6)  # type: ignore[type-var]
    finding = _only(loss.CHECK.judge(observe_gateway(probe=probed(gain=gain))))
    assert finding.cost.basis is Basis.MEASURED
    assert finding.cost.amount == pytest.approx(200.0)  # 200 tokens/s are half of 400
    assert finding.cost.low == pytest.approx(200 * (1 / 0.6 - 1))
    assert finding.cost.share == pytest.approx(0.5)


def test_a_loss_computed_from_step_times_is_an_estimate_with_settings_of_vllm() -> None:
    measured = probed().gain
    assert measured is not None
    gain = dataclasses.replace(
        measured, value=0.5, low=0.4, high=0.6, how="timed", is_estimated=True
    )
    finding = _only(loss.CHECK.judge(observe_vllm(HARD_TEXT, probe=probed(gain=gain))))
    assert (finding.cost.basis, finding.cost.how) == (Basis.ESTIMATED, "timed")
    assert finding.cost.share == pytest.approx(0.5)
    assert "on the workload hard at temperature 1" in finding.summary
    assert finding.settings[0] == "speculative_config.num_speculative_tokens"


def test_a_measured_gain_is_no_finding() -> None:
    assert list(loss.CHECK.judge(observe_gateway(probe=probed()))) == []


def test_an_uncertain_measurement_is_no_finding() -> None:
    gain = dataclasses.replace(probed().gain, low=0.9)  # type: ignore[type-var]
    with pytest.raises(CannotJudge, match="no certain loss"):
        loss.CHECK.judge(observe_gateway(probe=probed(gain=gain)))


def test_a_policy_that_adapts_the_length_is_measured_or_not_judged() -> None:
    states = {"r0": {"policy": "goodput"}, "r1": {"policy": "goodput"}}
    with pytest.raises(CannotJudge, match="goodput adapts"):
        loss.CHECK.judge(observe_gateway(governors=(states,)))


def test_a_fixed_length_under_a_governor_is_judged_from_its_counters() -> None:
    def state(steps: int) -> dict[str, dict[str, object]]:
        return {
            "r0": {
                "policy": "fixed", "seconds_total": 0.05 * steps, "steps_total": steps,
                "num_drafts_total": 4 * steps, "drafted_tokens_total": 32 * steps,
                "accepted_tokens_total": 0, "accepted_per_position_total": [0] * 8,
            }
        }  # fmt: skip

    observation = observe_gateway({"r0": {}}, governors=(state(0), state(100)))
    finding = _only(loss.CHECK.judge(observation))
    assert finding.id == "speculation-loses"
    assert finding.settings == ("engine.policy", "engine.draft_length_max")


def test_drafts_too_long_for_the_load_are_found() -> None:
    """The first token nearly always passes and is worth drafting, the others never."""
    engine = dataclasses.replace(HARD_TEXT, reached=(0.9, *(0.0,) * 5), token_ms=0.4)
    finding = _only(length.CHECK.judge(observe_vllm(engine)))
    assert finding.id == "draft-too-long"
    assert "6 tokens; 1 would give" in finding.summary
    best = (1 + 0.9) / engine.step_ms(4, 1) / ((1 + 0.9) / engine.step_ms(4))
    rate = 1e3 * sum(load * 1.9 / engine.step_ms(load) for load in engine.loads) / 16
    assert finding.cost.low is not None
    assert finding.cost.high is not None
    assert finding.cost.low < rate * (best - 1) < finding.cost.high


def test_drafts_too_short_for_the_load_are_found() -> None:
    engine = SimulatedEngine(draft_ms=0.1, token_ms=0.01, reached=(0.98,))
    finding = _only(length.CHECK.judge(observe_vllm(engine)))
    assert finding.id == "draft-too-short"


def test_a_length_at_one_end_of_the_best_ones_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="the best length is between"):
        length.CHECK.judge(observe_vllm(SimulatedEngine()))


def test_a_length_between_the_best_ones_is_not_judged() -> None:
    """At a steady load the cost is unknown: the best length is 0 if it is high, 16 if low."""
    engine = SimulatedEngine(loads=(4,) * 15, reached=tuple(0.97**at for at in range(1, 5)))
    with pytest.raises(CannotJudge, match="between 0 and 16 and the engine drafts 4"):
        length.CHECK.judge(observe_vllm(engine))


def test_a_policy_that_chooses_the_length_has_no_wrong_one() -> None:
    states = {"r0": {"policy": "goodput"}, "r1": {"policy": "goodput"}}
    assert length.CHECK.judge(observe_gateway(governors=(states,))) == []


def test_drafts_of_several_lengths_have_no_best_one() -> None:
    engine = SimulatedEngine()
    observation = observe_vllm(engine)
    page = observation.last.page.samples["vllm:spec_decode_num_draft_tokens_total"]
    observation.last.page.samples["vllm:spec_decode_num_draft_tokens_total"] = [  # type: ignore[index]
        dataclasses.replace(page[0], value=page[0].value / 2)
    ]
    with pytest.raises(CannotJudge, match="differ in length"):
        length.CHECK.judge(observation)


def test_data_parallel_ranks_that_draft_are_a_remark() -> None:
    (finding,) = data_parallel.CHECK.judge(observe_vllm(SimulatedEngine(), SimulatedEngine()))
    assert finding.severity is Severity.INFO
    assert not data_parallel.CHECK.judge(observe_vllm(SimulatedEngine()))
    without = SimulatedEngine(reached=()), SimulatedEngine(reached=())
    assert not data_parallel.CHECK.judge(observe_vllm(*without))
