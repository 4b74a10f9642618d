"""The goodput policy against engines whose best draft length is known exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.governor.goodput import GoodputPolicy
from paceline.governor.values import EngineLoad

from .simulated_engine import SimulatedEngine, Truth, share_of_best

MAX = 8
EASY, MIDDLING, HARD = (0.85,), (0.6,), (0.2,)
# The measured proportions of a 139M target, and of a small one where drafting is dear.
LARGE = Truth(num_requests=1, accept=EASY)
SMALL = Truth(
    num_requests=1,
    accept=EASY,
    base_s=0.005,
    request_s=0.0002,
    verify_s=0.0001,
    draft_pass_s=0.002,
    draft_token_s=0.00001,
)


@pytest.mark.parametrize("num_requests", [1, 4, 16, 64])
@pytest.mark.parametrize("accept", [EASY, MIDDLING, HARD], ids=["easy", "middling", "hard"])
@pytest.mark.parametrize("machine", [LARGE, SMALL], ids=["large", "small"])
def test_goodput_comes_near_the_best_fixed_length(
    machine: Truth, accept: tuple[float, ...], num_requests: int
) -> None:
    """After 100 steps it earns 96 % of the oracle at least, whatever the best length is."""
    truth = replace(machine, accept=accept, num_requests=num_requests)
    shares = []
    for seed in range(3):
        engine = SimulatedEngine(GoodputPolicy(MAX), MAX, seed=seed)
        engine.run(truth, 100)
        shares.append(share_of_best(engine.run(truth, 500), truth, MAX))
    assert sum(shares) / len(shares) >= 0.96


def test_goodput_switches_off_when_drafting_loses() -> None:
    """At 64 requests of hard text length 0 is best: nearly every step is off."""
    truth = replace(LARGE, accept=HARD, num_requests=64)
    assert truth.best_length(MAX) == 0
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(truth, 100)
    lengths = engine.run(truth, 400).lengths
    assert lengths.count(0) >= 0.95 * len(lengths)


@pytest.mark.parametrize("num_requests", [1, 4, 16])
def test_goodput_comes_back_from_off(num_requests: int) -> None:
    """Off for long on hopeless text, then easy text: within 300 steps it drafts again.

    At one request a burst that finds nothing is 2 steps, each 0.4 of a step longer: at 0.4 % of the
    time one in 200 steps.
    """
    hopeless = replace(SMALL, accept=(0.05,), num_requests=num_requests)
    easy = replace(SMALL, accept=(0.9,), num_requests=num_requests)
    assert (hopeless.best_length(MAX), easy.best_length(MAX) >= 2) == (0, True)
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(hopeless, 600)
    engine.run(easy, 300)
    assert share_of_best(engine.run(easy, 200), easy, MAX) >= 0.95


@pytest.mark.parametrize("samples_late", [0, 1])
@pytest.mark.parametrize(
    ("machine", "loads"),
    [(SMALL, (1,)), (SMALL, (1, 2)), (SMALL, (1, 64)), (LARGE, (1,)), (LARGE, (1, 2))],
    ids=["small-1", "small-1-2", "small-1-64", "large-1", "large-1-2"],
)
def test_goodput_explores_within_its_budget(
    machine: Truth, loads: tuple[int, ...], samples_late: int
) -> None:
    """On hopeless text it loses 0.5 % of the time and 12 steps to off, whatever the load does.

    The load changes every 10 steps; the 12 steps are the start: profile, learning, first credit.
    """
    phases = [replace(machine, accept=(0.02,), num_requests=num) for num in loads]
    assert [phase.best_length(MAX) for phase in phases] == [0] * len(phases)
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX, samples_late=samples_late)
    spent_s = lost_s = 0.0
    for index in range(600):
        phase = phases[index % len(phases)]
        run = engine.run(phase, 10)
        spent_s += run.expected_s
        lost_s += run.expected_s - run.tokens / phase.tokens_per_s(0)
    assert lost_s <= 0.005 * spent_s + 12 * max(phase.step_s(0, 0) for phase in phases)


@pytest.mark.parametrize(("num_requests", "first_steps"), [(1, 2), (4, 2), (16, 1)])
@pytest.mark.parametrize("samples_late", [0, 1])
def test_goodput_ends_a_burst_on_its_own_verdicts(
    num_requests: int, first_steps: int, samples_late: int
) -> None:
    """Nothing accepted: every burst is its first steps. All accepted: the first burst switches on.

    With 8 verdicts from one step no second is needed before its verdict is in.
    """
    hopeless = replace(SMALL, accept=(0.0,), num_requests=num_requests)
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX, samples_late=samples_late)
    engine.run(hopeless, 100)
    shown = "".join("x" if length else "." for length in engine.run(hopeless, 900).lengths)
    assert set(shown.strip("x").split(".")) == {"", "x" * first_steps}
    lengths = engine.run(replace(hopeless, accept=(1.0,)), 400).lengths
    first = next(step for step, length in enumerate(lengths) if length > 0)
    assert all(lengths[first + 10 :])


def test_goodput_has_a_way_back_however_dear_drafting_is() -> None:
    """A burst of twice 4 steps' time overdraws a full account, and comes every 2000 steps."""
    dear = replace(SMALL, accept=(0.0,), draft_pass_s=0.02)
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(dear, 100)
    shown = "".join("x" if length else "." for length in engine.run(dear, 6000).lengths)
    assert 2 <= shown.count(".x") <= 4


def test_goodput_leaves_a_losing_length_within_fifty_steps() -> None:
    """Easy text turns hard at 16 requests: the 50 steps after the first 50 are near the best."""
    easy = replace(LARGE, num_requests=16)
    hard = replace(easy, accept=(0.1,))
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(easy, 300)
    engine.run(hard, 50)
    assert share_of_best(engine.run(hard, 200), hard, MAX) >= 0.95


def test_goodput_shortens_as_load_grows() -> None:
    """The same text at 1 and at 64 requests: verification gets dear, drafts get shorter."""
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    alone = engine.run(LARGE, 300).lengths[-50:]
    crowded = engine.run(replace(LARGE, num_requests=64), 300).lengths[-50:]
    assert sorted(alone)[25] > sorted(crowded)[25]


def test_goodput_learns_that_a_drafter_seldom_offers() -> None:
    """A free n-gram drafter that matches 40 % of the time, and then well: long drafts pay."""
    truth = replace(
        LARGE, num_requests=4, accept=(0.9,), offer=0.4, draft_pass_s=0.0, draft_token_s=0.0
    )
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(truth, 150)
    run = engine.run(truth, 500)
    assert sorted(run.lengths)[250] >= 6
    assert share_of_best(run, truth, MAX) >= 0.95


def test_goodput_respects_a_lower_ceiling_at_once() -> None:
    """An operator's ceiling holds for the next plan already."""
    policy = GoodputPolicy(MAX)
    engine = SimulatedEngine(policy, MAX)
    engine.run(LARGE, 200)
    load = EngineLoad(
        num_requests=1, context_tokens=300, prefill_tokens=0, num_waiting=0, max_draft_length=2
    )
    assert [policy.plan(load).draft_length <= 2 for _ in range(100)] == [True] * 100


def test_goodput_plans_for_no_requests() -> None:
    """An idle engine may ask; any length within the ceiling answers."""
    load = EngineLoad(
        num_requests=0, context_tokens=0, prefill_tokens=0, num_waiting=0, max_draft_length=3
    )
    assert 0 <= GoodputPolicy(MAX).plan(load).draft_length <= 3


def test_goodput_holds_its_length_under_pure_noise() -> None:
    """Near the optimum the lengths stay together: no more than a fifth are probes or changes."""
    truth = replace(LARGE, accept=MIDDLING, num_requests=16)
    engine = SimulatedEngine(GoodputPolicy(MAX), MAX)
    engine.run(truth, 200)
    lengths = engine.run(truth, 400).lengths
    most_common = max(set(lengths), key=lengths.count)
    assert lengths.count(most_common) >= 0.8 * len(lengths)
