"""A campaign on a simulated machine in virtual time: order, stopping, interruption."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
from collections import Counter

import pytest

from paceline.workbench.bench.compare.campaign import (
    Campaign,
    CampaignSettings,
    judge_interrupted,
    run_campaign,
)
from paceline.workbench.bench.compare.contrasts import Arm, Block, Figure
from paceline.workbench.bench.compare.verdict import Verdict


class VirtualServers:
    """Two servers on one machine whose speed drifts; B is faster by `gain`. Time is virtual.

    Within a round every block is faster than the one before by `order_gain`.
    """

    def __init__(
        self, gain: float, noise: float, seed: int, block_s: float = 2.0, order_gain: float = 0.0
    ) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[Arm, int, int]] = []
        self.interrupt_after: int | None = None
        self._gain, self._noise, self._block_s = gain, noise, block_s
        self._order_gain = order_gain
        self._rng = random.Random(seed)
        self._drift = 0.0

    def clock(self) -> float:
        return self.now_s

    async def run(self, arm: Arm, round_index: int, position: int) -> Block:
        if len(self.calls) == self.interrupt_after:
            raise asyncio.CancelledError
        self.calls.append((arm, round_index, position))
        self._drift = 0.9 * self._drift + self._rng.gauss(0, self._noise)
        speed = math.exp(self._drift) * (1 + self._gain if arm is Arm.B else 1)
        speed *= (1 + self._order_gain) ** position
        window_s = self._block_s / speed
        started_s, self.now_s = self.now_s, self.now_s + window_s
        return Block(
            round_index=round_index, position=position, arm=arm, started_s=started_s,
            window_s=window_s, num_requests=10, num_errors=0, output_tokens=1000,
            output_tokens_per_s=1000 / window_s, ttft_ms=100 / speed, tpot_ms=10 / speed,
            dispatch_delays_ms=(),
        )  # fmt: skip


def settings(max_s: float = 600.0, seed: int = 0) -> CampaignSettings:
    return CampaignSettings(
        primary=Figure.OUTPUT_TOKENS_PER_S, margin=0.03, total_error=0.01, max_s=max_s, seed=seed
    )


def run(servers: VirtualServers, bounds: CampaignSettings) -> Campaign:
    campaign = Campaign()
    asyncio.run(run_campaign(bounds, servers, servers.clock, campaign))
    return campaign


def test_the_warm_up_round_tells_how_many_rounds_fit_and_counts_for_nothing() -> None:
    """Rounds of 8 s in 600 s: the warm-up and 74 rounds."""
    servers = VirtualServers(gain=0.0, noise=0.0, seed=0)
    campaign = run(servers, settings())
    assert campaign.num_planned_rounds == 74
    assert campaign.rounds[0].blocks[0].round_index == 1
    assert servers.calls[0][1] == 0


def test_the_arms_take_turns_and_both_run_twice_in_a_round() -> None:
    servers = VirtualServers(gain=0.0, noise=0.2, seed=0)
    campaign = run(servers, settings(max_s=200))
    for one in campaign.rounds:
        assert Counter(block.arm for block in one.blocks) == {Arm.A: 2, Arm.B: 2}
        assert one.blocks[1].arm is one.blocks[2].arm
    first = Counter(one.blocks[0].arm for one in campaign.rounds)
    assert min(first[Arm.A], first[Arm.B]) > 0


def test_a_clear_difference_stops_at_the_first_look() -> None:
    """Rounds of 2 + 2 / 1.25 + 2 / 1.25 + 2 = 7.2 s: 82 fit. The first look is after ten."""
    servers = VirtualServers(gain=0.25, noise=0.0, seed=0)
    campaign = run(servers, settings())
    assert campaign.num_planned_rounds == 82
    assert len(campaign.rounds) == 10
    assert [judgement.verdict for judgement in campaign.judgements] == [Verdict.FASTER]


@pytest.mark.parametrize("gain", [0.1, -0.1, 0.05, -0.03])
def test_a_difference_without_noise_is_found_within_a_minute(gain: float) -> None:
    """Blocks of 1 s: the warm-up and ten rounds of about 4 s."""
    servers = VirtualServers(gain=gain, noise=0.0, seed=0, block_s=1.0)
    campaign = run(servers, settings())
    expected = Verdict.FASTER if gain > 0 else Verdict.SLOWER
    assert campaign.judgements[-1].verdict is expected
    assert servers.now_s < 60


def test_three_percent_beside_noise_is_found_in_a_quarter_of_the_time() -> None:
    """Noise of 2 % per block of half a second: with looks from 40 % of the rounds on, it took four
    minutes at least."""
    times_s = []
    for seed in range(10):
        servers = VirtualServers(gain=0.03, noise=0.02, seed=seed, block_s=0.5)
        assert run(servers, settings(seed=seed)).judgements[-1].verdict is Verdict.FASTER
        times_s.append(servers.now_s)
    assert statistics.median(times_s) < 150


def test_an_unclear_difference_takes_all_looks_and_keeps_to_the_time() -> None:
    servers = VirtualServers(gain=0.0, noise=0.3, seed=3)
    campaign = run(servers, settings())
    assert campaign.judgements[-1].verdict is Verdict.UNDECIDED
    assert servers.now_s <= 600
    assert sum(judgement.error for judgement in campaign.judgements) == pytest.approx(0.01)


def test_rounds_longer_than_the_time_give_one_round_and_no_verdict() -> None:
    servers = VirtualServers(gain=0.5, noise=0.0, seed=0, block_s=1000)
    campaign = run(servers, settings())
    assert len(campaign.rounds) == 1
    assert campaign.judgements[-1].verdict is Verdict.UNDECIDED
    assert "too few" in campaign.judgements[-1].reason


def test_an_interrupted_campaign_keeps_its_whole_rounds_and_can_be_judged() -> None:
    """The warm-up and nine rounds take 40 blocks; the 42nd is cancelled."""
    servers = VirtualServers(gain=0.2, noise=0.01, seed=0)
    servers.interrupt_after = 41
    campaign = Campaign()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_campaign(settings(), servers, servers.clock, campaign))
    assert len(campaign.rounds) == 9
    judge_interrupted(settings(), campaign)
    assert campaign.judgements[-1].error == pytest.approx(0.01)
    assert campaign.judgements[-1].verdict is Verdict.FASTER


def test_a_machine_on_which_later_blocks_are_faster_leaves_it_undecided() -> None:
    """The first blocks of a round warm the machine up: A differs from itself in every round."""
    for seed in range(5):
        servers = VirtualServers(gain=0.05, noise=0.005, seed=seed, order_gain=0.05)
        judgement = run(servers, settings(max_s=160, seed=seed)).judgements[-1]
        assert judgement.verdict is Verdict.UNDECIDED
        assert "A differs from itself" in judgement.reason
        assert judgement.aa[Figure.OUTPUT_TOKENS_PER_S].excludes_zero()


def test_comparisons_of_equal_servers_under_correlated_noise_raise_few_alarms() -> None:
    """100 comparisons with an error of 1 %: more than 5 alarms have a probability of 0.05 %."""
    alarms = 0
    for seed in range(100):
        servers = VirtualServers(gain=0.0, noise=0.05, seed=seed)
        campaign = run(servers, settings(max_s=160, seed=seed))
        alarms += campaign.judgements[-1].verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert alarms <= 5


def test_differences_of_three_percent_are_found() -> None:
    """Noise of 2 % per block: all 10 comparisons of ten minutes find it."""
    for seed in range(10):
        campaign = run(VirtualServers(gain=0.03, noise=0.02, seed=seed), settings(seed=seed))
        assert campaign.judgements[-1].verdict is Verdict.FASTER
