"""The simulated engine against runs computed step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop, OpenLoop, Phase
from unit.policy_simulator.setups import QUIET, Recorder, linear, machine, steps, text


def run(
    on: Machine, policy: Recorder, phase: Phase, *, seed: int = 0, ceiling: int | None = None
) -> StepLog:
    return SimulatedEngine(on, policy, seed=seed, disturbance=QUIET).run(phase, ceiling=ceiling)


def test_throughput_of_certain_drafts_is_what_the_hand_computes() -> None:
    """Two requests of 9 tokens, 3 drafted, all accepted: 1 + 4 + 4 tokens each in three steps.

    First step: 10 + 2 + 3 passes of 3 = 21 ms. The others verify 6 drafts more: 33 ms.
    """
    log = run(machine(), Recorder(3), steps(3, 2, text(1.0, output=(9, 9))))
    assert log.duration_s.tolist() == pytest.approx([0.021, 0.033, 0.033])
    assert log.output_tokens.tolist() == [2, 8, 8]
    assert log.tokens_per_s == pytest.approx(18 / 0.087)


def test_throughput_of_hopeless_drafts_is_one_token_a_step() -> None:
    """One request of 4 tokens, 2 drafted, none accepted: 17 ms, then 21 ms three times."""
    log = run(machine(), Recorder(2), steps(4, 1, text(0.0, output=(4, 4))))
    assert log.output_tokens.tolist() == [1, 1, 1, 1]
    assert log.seconds == pytest.approx(0.017 + 3 * 0.021)


def test_output_past_the_end_is_not_counted() -> None:
    """3 tokens wanted, 4 drafted and accepted in the second step: 2 of its 5 count."""
    log = run(machine(), Recorder(4), steps(2, 1, text(1.0, output=(3, 3))))
    assert log.output_tokens.tolist() == [1, 2]


def test_a_long_prompt_is_computed_in_chunks_beside_decodes() -> None:
    """Budget 8: a prompt of 20 takes 8 + 8 + 4 tokens while nobody decodes.

    The second request's prompt then shares the budget with the first one's decode: 1 + 7.
    """
    on = machine(token_budget=8, max_num_seqs=2)
    policy = Recorder(0)
    log = run(on, policy, steps(4, 2, text(0.0, prompt=(20, 20))))
    assert log.prefill_tokens.tolist() == [7, 7, 6, 6]
    assert log.output_tokens.tolist() == [0, 0, 1, 1]
    assert [load.num_requests for load in policy.loads] == [1, 1, 2, 2]
    assert [load.num_waiting for load in policy.loads] == [1, 1, 0, 0]


def test_a_prompt_is_computed_in_chunks_of_the_machines_size() -> None:
    """A prompt of 20 in chunks of 8 takes 8 + 8 + 4 tokens although the budget is 512; until the
    last chunk the request is prefilling."""
    on = machine(max_num_seqs=2).with_prefill_chunks(8)
    policy = Recorder(0)
    log = run(on, policy, steps(4, 1, text(0.0, prompt=(20, 20))))
    assert log.prefill_tokens.tolist() == [7, 7, 3, 0]
    assert log.output_tokens.tolist() == [0, 0, 1, 1]
    assert [load.num_prefilling for load in policy.loads] == [1, 1, 0, 0]
    assert [load.num_decoding for load in policy.loads] == [0, 0, 1, 1]


def test_drafts_that_do_not_fit_the_budget_are_cut() -> None:
    """Three requests with 3 drafts each want 12 tokens of 8: 4, 4, and nothing for the third."""
    on = machine(token_budget=8, max_num_seqs=8)
    log = run(on, Recorder(3), steps(2, 3, text(1.0)))
    assert log.num_requests.tolist() == [3, 2]
    assert log.drafted_tokens.tolist() == [0, 6]


def test_requests_beyond_max_num_seqs_wait() -> None:
    """One seat, two requests of 2 tokens: the second one's first token comes after 3 steps."""
    log = run(machine(max_num_seqs=1), Recorder(0), steps(3, 2, text(0.0, output=(2, 2))))
    assert log.first_token_s.tolist() == pytest.approx([0.011, 0.033])
    assert log.inter_chunk_s.tolist() == pytest.approx([0.011])


def test_time_per_output_token_is_that_of_whole_answers() -> None:
    """9 tokens as 1 + 4 + 4 in steps of 26 ms: 52 ms for 8 tokens. Those that end with their first
    token have none."""
    cost = linear(base_s=0.026, request_s=0.0, token_s=0.0, draft_pass_s=0.0)
    log = run(machine(cost=cost), Recorder(3), steps(6, 1, text(1.0, output=(9, 9))))
    assert log.time_per_output_token_s.tolist() == pytest.approx([0.052 / 8] * 2)
    log = run(machine(cost=cost), Recorder(3), steps(6, 1, text(1.0, output=(1, 1))))
    assert log.time_per_output_token_s.tolist() == []


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_drafted_now_is_verified_next(is_async: bool) -> None:
    """Lengths 1, 2, 3, 4 in turn: each step judges the length of the one before."""
    policy = Recorder(1, 2, 3, 4)
    log = run(machine(is_async=is_async), policy, steps(6, 1, text(1.0, output=(999, 999))))
    assert log.draft_length.tolist() == [1, 2, 3, 4, 1, 2]
    assert log.requested_draft_length.tolist() == [0, 1, 2, 3, 4, 1]
    assert [sample.drafted for sample in policy.samples] == [(), (1,), (2,), (3,), (4,), (1,)]


def test_asynchronous_samples_come_one_step_later() -> None:
    """The plan for the next step is asked for before this step's sample is shown."""
    orders = []
    for is_async in (False, True):
        policy = Recorder(1)
        run(machine(is_async=is_async), policy, steps(3, 1, text(0.5)))
        orders.append(policy.calls)
    assert orders[0] == ["plan", "observe"] * 3
    assert orders[1] == ["plan", "plan", "observe", "plan", "observe", "plan", "observe"]


def test_an_asynchronous_engine_computes_an_ended_request_once_more() -> None:
    """5 tokens, 3 drafts accepted: after 1 + 4 it has ended, but the third step was under way.

    Its place is paid for, its drafts judge nobody, and no output comes of it.
    """
    policy = Recorder(3)
    log = run(machine(is_async=True), policy, steps(3, 1, text(1.0, output=(5, 5))))
    assert log.output_tokens.tolist() == [1, 4, 0]
    assert log.drafted_tokens.tolist() == [0, 3, 3]
    assert [sample.drafted for sample in policy.samples] == [(), (), ()]


def test_a_resting_drafter_pays_for_what_it_missed() -> None:
    """Prompt of 5, three steps off, then on: 5 + 1 + 1 tokens missed at 1 ms each."""
    on = machine("rests", cost=linear(catch_up_token_s=0.001))
    policy = Recorder(0, 0, 0, 2, 2)
    log = run(on, policy, steps(5, 1, text(0.0, prompt=(5, 5))))
    assert log.catch_up_tokens.tolist() == [0, 0, 0, 7, 0]
    assert log.duration_s[3] == pytest.approx(0.011 + 0.006 + 0.007)
    assert [(s.catches_up, s.is_clean) for s in policy.samples] == [
        (False, False),
        (False, True),
        (False, True),
        (True, False),
        (False, True),
    ]


def test_catching_up_is_bounded_by_the_budget_and_drafts_nothing_meanwhile() -> None:
    """Prompt of 20 at a budget of 8, off; then 20 missed tokens are made up for 8 at a time.

    Each step of catching up misses its own token too: 20 - 8 + 1 = 13, 13 - 8 + 1 = 6, then none.
    """
    on = machine("rests", cost=linear(catch_up_token_s=0.001), token_budget=8, max_num_seqs=1)
    policy = Recorder(0, 0, 0, 2, 2, 2, 2)
    log = run(on, policy, steps(7, 1, text(0.0, prompt=(20, 20))))
    assert log.catch_up_tokens.tolist() == [0, 0, 0, 8, 8, 6, 0]
    assert log.drafted_tokens.tolist() == [0, 0, 0, 0, 0, 0, 2]
    assert log.duration_s[3:].tolist() == pytest.approx([0.019, 0.019, 0.023, 0.021])
    assert [s.catches_up for s in policy.samples] == [False] * 3 + [True] * 3 + [False]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_on_a_gpu_slots_without_a_match_are_verified_and_rejected(is_async: bool) -> None:
    """All drafts would be accepted, and never is there a match: three are verified every step."""
    kind = text(1.0, match=(0.0, 0.0), output=(10**9, 10**9))
    on = machine("ngram_gpu", is_async=is_async)
    log = run(on, Recorder(3), steps(50, 2, kind))
    assert set(log.drafted_tokens[-40:]) == {6}
    assert log.accepted_tokens.sum() == 0
    beside = run(machine("ngram"), Recorder(3), steps(50, 2, kind))
    assert beside.drafted_tokens.sum() == 0


def test_a_matched_draft_on_a_gpu_is_accepted_as_elsewhere() -> None:
    """Always a match: as a drafter that always offers."""
    kind = text(0.8, output=(10**9, 10**9))
    logs = [
        run(machine(drafter, is_async=True), Recorder(3), steps(100, 2, kind))
        for drafter in ("ngram_gpu", "stateless")
    ]
    assert logs[0].accepted_tokens.tolist() == logs[1].accepted_tokens.tolist()


def test_only_captured_lengths_are_drafted() -> None:
    """5 becomes 3; the load has the allowed ones."""
    policy = Recorder(5)
    on = replace(machine(), captured_lengths=(0, 1, 3, 7))
    log = run(on, policy, steps(20, 2, text(0.5)))
    assert set(log.draft_length) == {3}
    assert policy.loads[0].allowed_lengths == (0, 1, 3, 7)


@pytest.mark.parametrize(
    ("drafter", "passes"), [("keeps_up", 1), ("rests", 0), ("stateless", 0), ("ngram", 0)]
)
def test_what_drafting_nothing_costs(drafter: str, passes: int) -> None:
    """Only a model that keeps up runs at length 0; an n-gram search is free at any length."""
    log = run(machine(drafter), Recorder(0), steps(1, 1, text(0.5)))  # type: ignore[arg-type]
    assert log.duration_s[0] == pytest.approx(0.011 + 0.003 * passes)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    """All columns equal, with noise and spread; the next seed differs."""
    phase = steps(200, 8, text(0.7, spread=1.0, prompt=(10, 90)))
    runs = [
        SimulatedEngine(machine(), Recorder(3, 0, 5), seed=seed).run(phase) for seed in (1, 1, 2)
    ]
    columns = [(r.duration_s, r.output_tokens, r.accepted_tokens, r.num_requests) for r in runs]
    assert all(np.array_equal(a, b) for a, b in zip(columns[0], columns[1], strict=True))
    assert not np.array_equal(columns[0][1], columns[2][1])


def test_every_policy_meets_the_same_requests() -> None:
    """An open loop served to its end yields the same tokens whatever was drafted."""
    kinds = (text(0.6, prompt=(5, 50)), text(0.9, name="other", output=(5, 300)))
    busy = Phase("busy", OpenLoop(2.0), kinds, duration_s=20.0)
    calm = Phase("calm", ClosedLoop(0), kinds, duration_s=60.0)
    totals = set()
    for length in (0, 2, 7):
        engine = SimulatedEngine(machine(), Recorder(length), seed=3)
        totals.add(sum(int(engine.run(phase).output_tokens.sum()) for phase in (busy, calm)))
    assert len(totals) == 1


def test_luck_belongs_to_the_position_not_to_the_step() -> None:
    """Lengths 4 and 8 finish a request in nearly as many steps as each other, on the same seed.

    At hazard 0.5 the fifth token is accepted in 3 % of the steps: their ratio strays by far less
    from seed to seed than it does between different seeds.
    """

    def num_steps(length: int, seed: int) -> int:
        long_request = Phase("one", OpenLoop(0.0, 1, 99.0), (text(0.5, output=(600, 600)),), 50.0)
        return run(machine(), Recorder(length), long_request, seed=seed).num_steps

    short = np.asarray([num_steps(4, seed) for seed in range(8)])
    long = np.asarray([num_steps(8, seed) for seed in range(8)])
    assert np.std(long / short) < 0.5 * np.std(long / np.roll(short, 1))


def test_bursts_arrive_at_once_and_idle_time_counts() -> None:
    """Three requests of 2 tokens every second, nothing between: two steps, then idle."""
    policy = Recorder(0)
    phase = Phase("bursts", OpenLoop(0.0, 3, 1.0), (text(0.0, output=(2, 2)),), duration_s=2.0)
    log = run(machine(), policy, phase)
    assert log.num_requests.tolist() == [3, 3, 3, 3]
    assert log.seconds == pytest.approx(2.0)
    assert log.duration_s.tolist() == pytest.approx([0.013] * 4)
    assert [sample.is_clean for sample in policy.samples] == [False, True, False, True]


def test_poisson_arrivals_come_at_their_rate() -> None:
    """50 a second for 40 s: 2000 requests, within three standard deviations."""
    phase = Phase("poisson", OpenLoop(50.0), (text(0.0, output=(1, 1)),), duration_s=40.0)
    fast = machine(cost=linear(base_s=0.0001, request_s=0.0))
    served = len(run(fast, Recorder(0), phase).first_token_s)
    assert abs(served - 2000) < 3 * 2000**0.5


def test_a_closed_loop_ramps() -> None:
    """From 1 to 9 requests over the phase: a quarter of the way through it is 3."""
    phase = Phase("ramp", ClosedLoop(1, 9), (text(0.0),), duration_s=10.0)
    log = run(machine(), Recorder(0), phase)
    at = np.searchsorted(np.cumsum(log.duration_s), [2.5, 5.0, 9.9])
    assert log.num_requests[at].tolist() == [3, 5, 9]
    assert log.num_requests[0] == 1


def test_clients_that_hang_up_are_gone_at_once() -> None:
    """From 6 requests to 2 between one step and the next, with and without hanging up."""
    six = steps(3, 6, text(0.0))
    two = Phase("two", ClosedLoop(2, hangs_up=True), (text(0.0),), num_steps=2)
    engine = SimulatedEngine(machine(), Recorder(0))
    assert engine.run(six).num_requests.tolist() == [6, 6, 6]
    assert engine.run(two).num_requests.tolist() == [2, 2]
    engine = SimulatedEngine(machine(), Recorder(0))
    engine.run(six)
    assert engine.run(steps(2, 2, text(0.0))).num_requests.tolist() == [6, 6]


def test_a_shift_of_truth_takes_hold_at_once() -> None:
    """The same class turns from certain to hopeless: the very next step accepts nothing."""
    engine = SimulatedEngine(machine(), Recorder(4))
    engine.run(steps(5, 2, text(1.0, output=(900, 900))))
    log = engine.run(steps(5, 2, text(0.0, output=(900, 900))))
    assert log.drafted_tokens.tolist() == [8] * 5
    assert log.accepted_tokens.tolist() == [0] * 5


def test_requests_of_a_class_that_no_longer_comes_keep_their_truth() -> None:
    """Hopeless ones arrive after a certain one, which is accepted as before."""
    engine = SimulatedEngine(machine(), Recorder(4))
    engine.run(steps(3, 1, text(1.0, output=(900, 900))))
    log = engine.run(steps(5, 1, text(0.0, name="other")))
    assert log.accepted_tokens.tolist() == [4] * 5


def test_an_operators_ceiling_reaches_the_policy() -> None:
    """The load carries it; a plan above it is refused in words."""
    policy = Recorder(8)
    log = run(machine(), policy, steps(3, 1, text(0.5)), ceiling=2)
    assert log.draft_length.tolist() == [2, 2, 2]

    class Disobedient(Recorder):
        def plan(self, load):  # type: ignore[no-untyped-def]
            return super().plan(load.__class__(1, 0, 0, 0, 8))

    with pytest.raises(ValueError, match="planned 8 draft tokens; it must be from 0 to 2"):
        run(machine(), Disobedient(8), steps(3, 1, text(0.5)), ceiling=2)


def test_offers_in_runs_need_an_ngram_drafter() -> None:
    """A model always offers: truth and machine must agree."""
    with pytest.raises(ValueError, match="use a machine with an n-gram drafter"):
        run(machine(), Recorder(1), steps(1, 1, text(0.5, match=(0.1, 0.9))))


def test_noise_is_one_on_average_and_stalls_and_drift_come_on_top() -> None:
    """10 % noise: a mean within 1 %. A stall adds its length. Drift follows a sine."""
    random = np.random.default_rng(0)
    noisy = [Disturbance(0.1).disturb(1.0, 0.0, random) for _ in range(4000)]
    assert np.mean(noisy) == pytest.approx(1.0, abs=0.01)
    assert np.std(noisy) == pytest.approx(0.1, abs=0.01)
    stalling = Disturbance(0.0, stall_chance=1.0, stall_s=2.0)
    assert stalling.disturb(1.0, 0.0, random) == pytest.approx(3.0)
    drifting = Disturbance(0.0, drift_fraction=0.5, drift_period_s=100.0)
    assert [drifting.disturb(1.0, t, random) for t in (0, 25, 75)] == pytest.approx([1, 1.5, 0.5])
    later = Disturbance(0.0, drift_fraction=0.5, drift_period_s=100.0, drift_offset_s=50.0)
    assert later.disturb(1.0, 25.0, random) == pytest.approx(0.5)


def test_a_slow_machine_takes_longer_for_a_while() -> None:
    """Twice as long from second 10 to 70."""
    random = np.random.default_rng(0)
    slow = Disturbance(0.0, slow_factor=2.0, slow_from_s=10.0, slow_for_s=60.0)
    durations = [slow.disturb(1.0, t, random) for t in (9.9, 10.0, 69.9, 70.0)]
    assert durations == pytest.approx([1.0, 2.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="slow_factor is 0; it must be positive"):
        Disturbance(slow_factor=0)


def test_other_work_takes_the_machines_time_again_and_again() -> None:
    """In the last quarter of every two seconds steps take four times as long, with a spread."""
    random = np.random.default_rng(0)
    busy = Disturbance(0.0, busy_factor=4.0, busy_every_s=2.0, busy_for_s=0.5)
    assert [busy.disturb(1.0, t, random) for t in (0.0, 1.4, 2.0, 41.4)] == [1.0] * 4
    logs = np.log([busy.disturb(1.0, t, random) for t in (1.5, 1.99, 41.6) for _ in range(2000)])
    assert np.exp(np.median(logs)) == pytest.approx(4.0, rel=0.05)
    assert logs.min() >= 0.0
    for changes in ({"busy_factor": 0.9}, {"busy_for_s": 2.0}, {"busy_for_s": -1.0}):
        with pytest.raises(ValueError, match="busy_factor must be at least 1, and busy_for_s"):
            Disturbance(**changes)


def test_the_first_step_of_a_size_takes_longer() -> None:
    random = np.random.default_rng(0)
    cold = Disturbance(0.0, first_use_s=0.5)
    assert cold.disturb(1.0, 0.0, random, is_first=True) == 1.5
    assert cold.disturb(1.0, 0.0, random) == 1.0
    with pytest.raises(ValueError, match="first_use_s is -1; it must not be negative"):
        Disturbance(first_use_s=-1)
    engine = SimulatedEngine(machine(), Recorder(1), disturbance=cold)
    log = engine.run(steps(20, 2, text(0.5)))
    is_slow = log.duration_s - log.expected_s > 0.4
    sizes = list(zip(log.num_requests, log.drafted_tokens, strict=True))
    assert list(is_slow) == [size not in sizes[:place] for place, size in enumerate(sizes)]
