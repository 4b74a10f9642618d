"""The throughput of a fleet of many replicas, estimated by simulating a few of them.

Replicas that receive requests from a random router are independent: a randomly thinned Poisson
stream is a Poisson stream. So a fleet of 1,000 is estimated from a sample of replicas with seeds of
their own, with a confidence interval. A router that considers load or prefixes makes replicas more
alike than assumed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.runtime.governor.policy import Policy
from paceline.testing.policy_simulator.engine.batch import Floats
from paceline.testing.policy_simulator.evaluation.arms import run_trace
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import Phase

_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """A fleet under one policy, estimated from `num_simulated` replicas."""

    num_replicas: int
    num_simulated: int
    tokens_per_s: float
    """Of the whole fleet."""
    tokens_per_s_margin: float
    """Half the 95 % confidence interval of it."""
    slowest_replica_fraction: float
    """Tokens per second of the slowest simulated replica over the mean."""
    inter_chunk_p99_s: float | None
    """Over all outputs of the simulated replicas."""


def simulate_fleet(
    machine: Machine,
    trace: Sequence[Phase],
    make_policy: Callable[[], Policy],
    *,
    num_replicas: int,
    num_simulated: int,
    seed: int = 0,
    disturbance: Disturbance | None = None,
) -> FleetSummary:
    """Each replica serves `trace` (its own share of the traffic) under a policy of its own."""
    if not 2 <= num_simulated <= num_replicas:
        raise ValueError(
            f"num_simulated is {num_simulated}; it must be from 2 to num_replicas ({num_replicas})"
        )
    rates: list[float] = []
    waits: list[Floats] = []
    for replica in range(num_simulated):
        logs = run_trace(
            machine,
            make_policy(),
            trace,
            seed=seed * num_replicas + replica,
            disturbance=disturbance,
        )
        tokens = sum(int(log.output_tokens.sum()) for log in logs)
        rates.append(tokens / sum(log.seconds for log in logs))
        waits.extend(log.inter_chunk_s for log in logs)
    mean = float(np.mean(rates))
    # Of a fleet no larger than the sample everything is known.
    unseen = 1.0 - num_simulated / num_replicas
    error = float(np.std(rates, ddof=1)) * math.sqrt(unseen / num_simulated)
    all_waits = np.concatenate(waits)
    return FleetSummary(
        num_replicas=num_replicas,
        num_simulated=num_simulated,
        tokens_per_s=num_replicas * mean,
        tokens_per_s_margin=num_replicas * _NORMAL_95 * error,
        slowest_replica_fraction=min(rates) / mean,
        inter_chunk_p99_s=float(np.percentile(all_waits, 99)) if len(all_waits) else None,
    )
