"""Simulated requests, as what the watch sees of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums, RequestVerdicts
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text


def simulate(
    traffic: PassageTraffic,
    num_requests: int,
    random: np.random.Generator,
    choose_length: Callable[[], int],
) -> Iterator[AcceptanceSums]:
    """The sums of each request."""
    for mean in traffic.means(random, num_requests):
        verdicts = RequestVerdicts()
        for requested, accepted in draft_text(draw_text(traffic, mean, random), choose_length):
            verdicts.add(requested, accepted)
        yield verdicts.sums()
