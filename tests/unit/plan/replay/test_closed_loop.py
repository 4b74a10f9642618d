"""Recordings of closed loops are recognized, and open traffic is not taken for one."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from paceline.foundation.recording.records import RequestRecord
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop, Phase
from paceline.workbench.plan.replay.closed_loop import closed_loop_size
from unit.plan.replay.simulated import MACHINE, classes, recorded, requests


def record(arrived_s: float, ended_s: float | None) -> RequestRecord:
    return RequestRecord(
        category="greedy",
        arrived_s=arrived_s,
        prompt_tokens=10,
        output_tokens=10,
        ended_s=ended_s,
    )


def loop(num_clients: int, num_turns: int, *, pause_s: float = 0.005) -> list[RequestRecord]:
    """Clients with answers of half a second to a second and a half."""
    random = np.random.default_rng(num_clients)
    found = []
    for _ in range(num_clients):
        at_s = float(random.uniform(0.01, 0.1))
        for _ in range(num_turns):
            ended_s = at_s + float(random.uniform(0.5, 1.5))
            found.append(record(at_s, ended_s))
            at_s = ended_s + float(random.exponential(pause_s))
    return found


def poisson(mean_level: float, count: int) -> list[RequestRecord]:
    random = np.random.default_rng(1)
    times_s = np.cumsum(random.exponential(1 / mean_level, count))
    return [record(float(at), float(at + random.uniform(0.5, 1.5))) for at in times_s]


@pytest.mark.parametrize("num_clients", [1, 2, 8, 64])
def test_a_closed_loop_has_its_size(num_clients: int) -> None:
    assert closed_loop_size(loop(num_clients, 40)) == num_clients


def test_a_loop_that_was_under_way_and_is_cut_has_its_size() -> None:
    """The recording has the middle of a run: the first requests are from before its start."""
    cut = [
        msgspec.structs.replace(
            one,
            arrived_s=max(0.0, one.arrived_s - 10.0),
            ended_s=None if one.ended_s is None or one.ended_s > 40.0 else one.ended_s - 10.0,
        )
        for one in loop(8, 60)
        if (one.ended_s or 0.0) > 10.0 and one.arrived_s < 40.0
    ]
    assert closed_loop_size(cut) == 8


def test_a_simulated_engine_in_a_closed_loop_is_recognized() -> None:
    phase = Phase("recorded", ClosedLoop(6), classes(), 60.0, requests=requests(3000, 2))
    policy = create_policy("goodput", max_draft_length=MACHINE.max_draft_length)
    _, recording = record_phase(MACHINE, policy, phase, policy_name="goodput", seed=1)
    assert closed_loop_size(recording.requests) == 6


@pytest.mark.parametrize("mean_level", [0.2, 1.0, 5.0, 50.0, 250.0])
def test_open_traffic_is_no_loop(mean_level: float) -> None:
    assert closed_loop_size(poisson(mean_level, 3000)) is None


def test_requests_with_pauses_or_too_few_are_no_loop() -> None:
    assert closed_loop_size(loop(1, 100, pause_s=1.0)) is None
    assert closed_loop_size(loop(4, 4)) is None
    assert closed_loop_size([]) is None
    assert closed_loop_size(recorded().requests) is None
