"""Replay scoring by a resting draft model: computed verdicts, and its cost."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from paceline.governor.values import ReplayScores, StepSample
from paceline.policy_simulator.engine import replay_scoring
from paceline.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.policy_simulator.engine.step_log import StepLog
from paceline.policy_simulator.evaluation.summary import Judge
from paceline.policy_simulator.machines.machine import Disturbance, Machine
from paceline.policy_simulator.traffic.phases import ClosedLoop, Phase
from unit.policy_simulator.setups import Recorder, linear, machine, steps, text

# 3 ms a draft pass, 0.1 ms for each request in it, 0.2 ms for each token.
COST = linear(draft_request_s=0.0001, catch_up_token_s=0.0002)
ENDLESS = (10**6, 10**6)


def run(
    policy: Recorder, *phases: Phase, on: Machine | None = None, noise: float = 0.0
) -> list[StepLog]:
    on = machine("rests", cost=COST) if on is None else on
    engine = SimulatedEngine(on, policy, seed=5, disturbance=Disturbance(noise_fraction=noise))
    return [engine.run(phase) for phase in phases]


def look(
    after: int, phase: Phase, *, num_tokens: int = 500, on: Machine | None = None
) -> ReplayScores:
    """The report of one request for scores, made in the last of `after` steps at length 0."""
    policy = Recorder(0, orders={after - 1: num_tokens})
    run(policy, phase, on=on)
    [report] = policy.reports
    return report


@pytest.mark.parametrize(
    ("hazards", "num_output", "drafted", "accepted"),
    [
        ((1.0,), 10, (8, 7, 4, 1), (8, 7, 4, 1)),  # one begins at every third; the text ends
        ((1.0,), 9, (8, 6, 3), (8, 6, 3)),  # no draft of length 0 is reported at its end
        ((0.0,), 3, (8, 8, 8), (0, 0, 0)),
        ((1.0, 1.0, 0.0), 9, (8, 8, 8), (2, 2, 2)),  # two accepted, one of the target's own
        ((1.0, 0.0), 10, (8,) * 5, (1,) * 5),  # one accepted, one of the target's own
        ((1.0, 0.0), 9, (8, 8, 8, 8, 1), (1,) * 5),  # the last one's miss would have come next
    ],
)
def test_drafts_begin_where_those_of_two_tokens_would(
    hazards: tuple[float, ...], num_output: int, drafted: tuple[int, ...], accepted: tuple[int, ...]
) -> None:
    """A prompt of 5, then a token each step. All tokens before the last one are computed; of the
    prompt only its last one, which predicts the first of the output, is judged."""
    phase = steps(num_output + 1, 1, text(*hazards, prompt=(5, 5)))
    report = look(num_output, phase)
    assert (report.drafted, report.accepted) == (drafted, accepted)
    assert report.computed_tokens == 5 + num_output - 1
    assert report.missing_tokens == 0


@pytest.mark.parametrize("spread", [0.0, 1.5])
def test_verdicts_are_those_that_drafting_two_tokens_meets(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request, one seed: with its first token judged apart, 500 more tokens hold the drafts
    that real drafting makes from there, each accepted as far."""
    monkeypatch.setattr(replay_scoring, "JUDGED_TOKENS", 500)
    endless = text(0.8, 0.5, 0.9, spread=spread, output=ENDLESS)
    drafting = Recorder(2)
    run(drafting, steps(400, 1, endless))
    real = [accepted for sample in drafting.samples for accepted in sample.accepted]
    looking = Recorder(0, orders={0: 1, 500: 500})
    run(looking, steps(502, 1, endless))
    seen = looking.reports[1]
    num_whole = seen.drafted.count(8)
    assert num_whole > 100
    assert [min(accepted, 2) for accepted in seen.accepted[:num_whole]] == real[:num_whole]


def test_verdicts_are_as_frequent_as_drafting_shows() -> None:
    """Requests that come and go, looked back on every 16 steps, against others that are drafted
    for: what is accepted of each depth differs by less than three standard deviations."""
    kind = text(0.8, 0.5, 0.9, prompt=(5, 60), output=(50, 400))
    drafting, looking = Recorder(8), Recorder(0, orders=dict.fromkeys(range(5, 6000, 16), 100))
    run(drafting, steps(500, 12, kind))
    run(looking, steps(6000, 12, kind))
    real = [pair for s in drafting.samples for pair in zip(s.drafted, s.accepted, strict=True)]
    seen = [pair for r in looking.reports for pair in zip(r.drafted, r.accepted, strict=True)]
    for depth, hazard in enumerate((0.8, 0.5, 0.9, 0.9, 0.9), start=1):
        shares, variance = [], 0.0
        for verdicts in (real, seen):
            judged = [a >= depth for d, a in verdicts if d >= depth and a >= depth - 1]
            assert len(judged) > 1000
            shares.append(sum(judged) / len(judged))
            variance += hazard * (1 - hazard) / len(judged)
        assert shares[0] == pytest.approx(shares[1], abs=3 * math.sqrt(variance))


def test_text_is_judged_by_the_truth_it_was_made_under() -> None:
    """18 tokens of a certain phase, then 5 of a hopeless one: a draft at every third, five misses.

    In one pass after all of it, and in two, the first of them after 9 tokens.
    """
    certain, hopeless = (text(hazard, output=ENDLESS) for hazard in (1.0, 0.0))
    for first, seen in (
        (22, [(8, 8, 8, 8, 6, 3, 0, 0, 0, 0, 0)]),
        (8, [(8, 6, 3), (8, 6, 3, 0, 0, 0, 0, 0)]),
    ):
        policy = Recorder(0, orders={first: 500, 22: 500})
        run(policy, steps(18, 1, certain), steps(6, 1, hopeless))
        assert [report.accepted for report in policy.reports] == seen


def test_a_pass_is_bounded_and_goes_on_where_the_last_one_ended() -> None:
    """Prompt of 20, 8 tokens an order, after 3 steps and each one after that.

    22 missed then; 14 left, and one more each step: 15 - 8, 8 - 8, 1 - 1. The third pass computes
    tokens 16 to 23: 19 is the prompt's last, so five of the eight are judged.
    """
    policy = Recorder(0, orders=dict.fromkeys(range(2, 6), 8))
    run(policy, steps(7, 1, text(0.0, prompt=(20, 20))))
    told = [(r.computed_tokens, r.missing_tokens, len(r.drafted)) for r in policy.reports]
    assert told == [(8, 14, 0), (8, 7, 0), (8, 0, 5), (1, 0, 1)]


def test_a_pass_takes_no_more_tokens_than_a_step_may() -> None:
    """Budget 8: of a prompt of 20 and a token more, 8 are computed whatever is ordered."""
    on = machine("rests", token_budget=8, max_num_seqs=1)
    report = look(4, steps(5, 1, text(0.0, prompt=(20, 20))), on=on)
    assert (report.computed_tokens, report.missing_tokens) == (8, 13)


def test_only_the_last_text_is_judged() -> None:
    """Of 100 tokens that were missed all are computed, and the last 64 judged."""
    report = look(101, steps(102, 1, text(0.0, prompt=(2, 2))))
    assert report.computed_tokens == 102
    assert len(report.drafted) == 64


def test_who_misses_the_least_comes_first() -> None:
    """Two requests of prompt 5, 6 tokens missed each. Seven: all of one and one of the other; then
    the one's next, and the other's six."""
    policy = Recorder(0, orders={1: 7, 2: 7})
    [log] = run(policy, steps(4, 2, text(0.0, prompt=(5, 5))))
    told = [(r.computed_tokens, len(r.drafted)) for r in policy.reports]
    assert told == [(7, 2), (7, 1 + 3)]
    assert log.replay_scoring_s[1:3] == pytest.approx(0.003 + 2 * 0.0001 + 7 * 0.0002)


def test_at_most_four_are_looked_at() -> None:
    """Six requests, 4 tokens missed each: 16 of the 24 are computed."""
    report = look(3, steps(4, 6, text(0.0, prompt=(2, 2))), num_tokens=100)
    assert report.computed_tokens == 16


def test_what_is_missing_is_told_of_the_one_that_misses_the_least() -> None:
    """Prompts of 50, then one of 30: 29 tokens of the latter are missing when 1 was computed."""
    policy = Recorder(0, orders={0: 1, 3: 1})
    first = steps(2, 2, text(0.0, prompt=(50, 50), name="first"))
    shorter = steps(3, 3, text(0.0, prompt=(30, 30), name="shorter"))
    run(policy, first, shorter)
    assert [report.missing_tokens for report in policy.reports] == [49, 30]


def test_where_nobody_decodes_there_is_nothing_to_see() -> None:
    """The prompt's first chunk: no pass is made, and the report says so."""
    on = machine("rests", token_budget=8, max_num_seqs=1)
    policy = Recorder(0, orders={0: 100})
    [log] = run(policy, steps(2, 1, text(0.0, prompt=(20, 20))), on=on)
    assert policy.reports == [ReplayScores((), (), 0, 0, 0.0)]
    assert log.duration_s[0] == pytest.approx(0.011 + 7 * 0.002)


@pytest.mark.parametrize(
    ("num_requests", "num_tokens", "computed", "drafted"),
    [
        (2, 6, 6, (3, 3)),  # three each
        (2, 7, 6, (3, 3)),
        (1, 10, 10, (8, 7, 4, 1)),
        (1, 500, 13, (8, 8, 7, 4, 1)),  # all 13 tokens of output, none of the prompt
        (4, 3, 0, ()),
    ],
)
def test_while_drafting_the_last_output_is_judged(
    num_requests: int, num_tokens: int, computed: int, drafted: tuple[int, ...]
) -> None:
    """Three certain drafts: 1 + 4 + 4 + 4 tokens of output after four steps, and nothing missed."""
    policy = Recorder(3, orders={3: num_tokens})
    run(policy, steps(5, num_requests, text(1.0, prompt=(9, 9))))
    [report] = policy.reports
    assert (report.drafted, report.accepted) == (drafted, drafted)
    assert (report.computed_tokens, report.missing_tokens) == (computed, 0)


def test_while_drafting_it_sees_deeper_than_it_drafts() -> None:
    """One drafted and accepted, the second hopeless: scoring judges up to the ceiling."""
    policy = Recorder(1, orders={5: 6})
    run(policy, steps(7, 1, text(1.0, 0.0)))
    assert (policy.reports[0].drafted, policy.reports[0].accepted) == ((8, 8, 8), (1, 1, 1))


def test_a_pass_prolongs_its_step_by_its_price_and_is_reported_with_the_next() -> None:
    """14 tokens of one request: 3 + 0.1 + 14 * 0.2 = 5.9 ms. Noise is not in the report."""
    phase = steps(12, 1, text(0.7, prompt=(5, 5)))
    quiet, asking = Recorder(0), Recorder(0, orders={9: 100})
    [without], [log] = run(quiet, phase), run(asking, phase)
    price_s = np.zeros(12)
    price_s[9] = 0.0059
    assert log.duration_s - without.duration_s == pytest.approx(price_s, abs=1e-12)
    assert log.replay_scoring_s == pytest.approx(price_s, abs=1e-12)
    assert [s.replay_scores is not None for s in asking.samples] == [False] * 10 + [True, False]
    assert [s.is_clean for s in asking.samples] == [False] + [True] * 8 + [False, True, True]
    assert all(s.is_clean for s in quiet.samples[1:])
    noisy = Recorder(0, orders={9: 100})
    run(noisy, phase, noise=0.2)
    for policy in (asking, noisy):
        assert policy.reports[0].seconds == pytest.approx(0.0059, rel=1e-9)


def test_output_comes_after_the_pass() -> None:
    """A waiting client sees the longer step: 11 ms, and 5.9 ms more once."""
    policy = Recorder(0, orders={9: 100})
    [log] = run(policy, steps(12, 1, text(0.7, prompt=(5, 5))))
    assert log.inter_chunk_s.tolist() == pytest.approx([0.011] * 8 + [0.0169] + [0.011] * 2)


def test_what_was_looked_at_needs_no_catching_up() -> None:
    """Two requests of prompt 5: after 3 steps 7 missed each. One is computed, 7 tokens are left
    and one each for the step after."""
    policy = Recorder(0, 0, 0, 0, 2, orders={2: 7})
    [log] = run(policy, steps(5, 2, text(0.0, prompt=(5, 5))))
    assert log.catch_up_tokens.tolist() == [0, 0, 0, 0, 7 + 2]


@pytest.mark.parametrize("drafter", ["keeps_up", "stateless", "ngram", "none"])
def test_no_other_drafter_has_replay_scoring(drafter: Any) -> None:
    """The load says that there is no replay scoring, and a request for it changes nothing."""
    phase = steps(40, 4, text(0.7, prompt=(5, 50)))
    asking, quiet = Recorder(2, orders=dict.fromkeys(range(40), 50)), Recorder(2)
    logs = [run(policy, phase, on=machine(drafter))[0] for policy in (asking, quiet)]
    columns = [f.name for f in fields(StepLog) if isinstance(getattr(logs[0], f.name), np.ndarray)]
    assert len(columns) == 14
    assert all(np.array_equal(getattr(logs[0], c), getattr(logs[1], c)) for c in columns)
    assert asking.samples == quiet.samples
    assert not any(load.has_replay_scoring for load in asking.loads)
    resting = Recorder(0)
    run(resting, steps(1, 1, text(0.5)))
    assert [load.has_replay_scoring for load in resting.loads] == [True]


def test_replay_scoring_leaves_the_outputs_as_they_are() -> None:
    """Tokens and acceptance of every step are those of a policy that does not ask."""
    phase = steps(300, 6, text(0.7, prompt=(5, 50), output=(20, 300), spread=1.0))
    lengths = [0] * 20 + [3] * 10
    asking, quiet = Recorder(*lengths, orders=dict.fromkeys(range(300), 50)), Recorder(*lengths)
    [looked], [plain] = run(asking, phase), run(quiet, phase)
    assert len(asking.reports) == 299
    for column in ("output_tokens", "accepted_tokens", "num_requests", "prefill_tokens"):
        assert np.array_equal(getattr(looked, column), getattr(plain, column))


def test_its_time_counts_as_exploring() -> None:
    """20 steps of 11 ms at length 0, one pass of 5.9 ms: 5.9 of 225.9 ms are lost to exploring."""
    on = machine("rests", cost=COST)
    phase = steps(20, 1, text(0.0, prompt=(5, 5), output=ENDLESS))
    [log] = run(Recorder(0, orders={9: 100}), phase, on=on)
    [summary] = Judge(on).summarize("recorded", [log]).phases
    assert summary.exploring_loss_fraction == pytest.approx(0.0059 / 0.2259, rel=1e-3)


def test_a_report_outlives_its_phase() -> None:
    """Ordered in a phase's last step, it comes with the first of the next."""
    policy = Recorder(0, orders={4: 100})
    run(policy, steps(5, 1, text(0.0)), Phase("next", ClosedLoop(1), (text(0.0),), num_steps=2))
    came: list[StepSample] = [s for s in policy.samples if s.replay_scores is not None]
    assert came == [policy.samples[5]]
