"""Every verdict of the sampler in the real engine, tested against claimed probabilities.

Twenty prompts, greedy and sampled requests with different parameters in one batch, a new draft
length in every step and stretches at 0, after which the draft model catches up. A right sampler
fails a test with probability 1/1000 at most; with fixed seeds the result does not change from run
to run on one machine. The tests with a bias of 5 % draw four times as many verdicts as those with
10 %.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pytest
from losslessness.engine_host import EngineHost
from losslessness.verdicts.arms import ARMS, VerdictArm, short_prompts, start_arm
from losslessness.verdicts.power import power
from losslessness.verdicts.rounds import (
    FOUND_ABOVE,
    draw_until_found,
    forced_logprob_errors,
)

from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

pytestmark = pytest.mark.engine


SLOW = pytest.mark.slow
FAULTS = "losslessness.verdicts.faults"
BIASES = [0.10, pytest.param(0.05, marks=SLOW)]
"""Of the acceptance threshold."""


@dataclass(frozen=True)
class Arm:
    name: str
    definition: VerdictArm
    engine: EngineHost
    prompts: list[list[int]]


@pytest.fixture(scope="module")
def arm(request: pytest.FixtureRequest) -> Iterator[Arm]:
    """One engine per drafter; the tests of wrong samplers inject their faults into it."""
    with start_arm(request.param) as engine:
        yield Arm(request.param, ARMS[request.param], engine, short_prompts(engine))


def with_arms(names: Collection[str]) -> pytest.MarkDecorator:
    """Parametrize a test with all arms, of which `make test` runs these.

    All are listed in the same order, by which pytest keeps the tests of an engine together.
    """
    arms = [pytest.param(name, marks=() if name in names else SLOW) for name in ARMS]
    return pytest.mark.parametrize("arm", arms, indirect=True, scope="module")


@with_arms(ARMS)
@pytest.mark.parametrize("bias", BIASES)
def test_verdicts_keep_to_the_claimed_probabilities(arm: Arm, bias: float) -> None:
    """As many verdicts as find this bias with probability 0.95, and none is found.

    The recorded log-probabilities are those of teacher forcing, so the logits are right too.
    """
    verdicts = draw_until_found(
        arm.engine, arm.prompts, num_verdicts=arm.definition.num_verdicts_for(bias)
    )
    evidence = verdicts.evidence()
    assert evidence.e_value < FOUND_ABOVE, evidence
    for factor in (1.0 - bias, 1.0 + bias):
        found = power(
            verdicts.ratios, threshold_factor=factor, found_above=FOUND_ABOVE, num_runs=100
        )
        assert found >= 0.95, (factor, found, len(verdicts.ratios))
    draws_drafts = arm.definition.settings.get("draft_sample_method") == "probabilistic"
    kinds = evidence.num if draws_drafts else evidence.num.keys() - {"draft"}
    assert min(evidence.num[kind] for kind in kinds) > 50
    assert verdicts.counts["greedy_tokens"] > (1000 if bias == 0.05 else 500)
    assert verdicts.largest_greedy_gap < NEAR_TIE_NATS["float32"]
    errors = forced_logprob_errors(arm.engine, verdicts.requests[::3])
    assert len(errors) > 1000
    assert max(errors) < NEAR_TIE_NATS["float32"]
    state = arm.engine.state()
    assert state["draft_length_changes_total"] > 0.5 * state["steps_total"]
    assert state["sampled_speculation"] == "on"


@with_arms(["sampled drafts", "ended early"])
@pytest.mark.parametrize(
    "direction",
    [
        pytest.param(-1, id="too low"),
        pytest.param(1, marks=SLOW, id="too high"),
    ],
)
@pytest.mark.parametrize("bias", BIASES)
def test_a_bias_is_found(arm: Arm, bias: float, direction: int) -> None:
    """Acceptance thresholds that are too low and too high by this share.

    Up to twice as many verdicts as above, so that chance does not decide on any machine.
    """
    arm.engine.call(f"{FAULTS}:scale_thresholds", 1.0 + direction * bias)
    num_verdicts = 2 * arm.definition.num_verdicts_for(bias)
    verdicts = draw_until_found(arm.engine, arm.prompts, num_verdicts=num_verdicts)
    evidence = verdicts.evidence()
    arm.engine.call(f"{FAULTS}:restore")
    assert evidence.e_value > FOUND_ABOVE, evidence


@with_arms(["greedy drafts", "sampled drafts"])
def test_other_wrong_samplers_are_found(arm: Arm) -> None:
    """Tokens after rejections, and draft probabilities that are lost before verification.

    With sampled drafts also: temperatures 25 % too high, of verified and of other positions.
    """
    faults: dict[str, list[float]] = {"replace_rejected_by_any": []}
    if arm.name == "sampled drafts":
        faults |= {
            "lose_draft_probs": [],
            "scale_verified_temperatures": [1.25],
            "scale_plain_temperatures": [1.25],
        }
    for fault, arguments in faults.items():
        arm.engine.call(f"{FAULTS}:{fault}", *arguments)
        verdicts = draw_until_found(
            arm.engine,
            arm.prompts,
            num_verdicts=arm.definition.num_verdicts_for(0.05),
            starts_small=True,
        )
        evidence = verdicts.evidence()
        arm.engine.call(f"{FAULTS}:restore")
        assert evidence.e_value > FOUND_ABOVE, (fault, evidence)
