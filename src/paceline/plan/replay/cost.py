"""The time of an engine step as a function of its work, with the prior of its coefficients.

    seconds = base + request * n + judge * [v > 0] + verify * v + context * c + mixed * [p > 0]
            + token * t + sum of bend_i * max(t - knot_i, 0)
            + pass * k + draft * n * k

with n requests, v draft tokens verified, p prompt tokens, c thousand tokens of context, k passes of
the draft model, and t the tokens of the target's pass, n + v + p, padded to a captured graph. A
token to verify also needs its logits and the rejection sampler, unlike one of a prompt. The bends
are where a pass ceases to be bound by reading the weights: arithmetic over bandwidth is some tens
of tokens on CPUs and some hundreds on GPUs. No coefficient is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.policy_simulator.machines.cost import StepShape
from paceline.policy_simulator.machines.graphs import GraphSizes

Floats = npt.NDArray[np.float64]

_KNOTS = (32.0, 64.0, 128.0, 256.0, 512.0)
"""Tokens. Prompt tokens are within a factor of two in a cell, so closer knots could not be kept
apart."""

SHARED_PRIOR = {
    "base": (0.9, 1.0),
    "request": (0.01, 0.05),
    "judge": (0.02, 0.1),
    "verify": (0.0, 0.05),
    "context": (0.005, 0.05),
    "mixed": (0.0, 0.3),
    "token": (0.02, 0.1),
    **{f"bend at {knot:g}": (0.0, 0.01) for knot in _KNOTS},
}
"""Mean and spread of the coefficients that all drafters share, relative to the time of the shortest
cell. Chosen empirically: wider than the prior of the governor's cost model, which must decide after
a few steps."""
DRAFT_PRIOR = {"pass": (0.1, 0.3), "draft": (0.005, 0.03)}
"""The same of the draft model's coefficients."""


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """A `CostFunction` of the policy simulator."""

    coefficients: tuple[float, ...]
    """The shared ones, then those of the draft model, seconds per unit of the feature."""
    graphs: GraphSizes
    pace: float = 1.0
    """Factor on every step: a machine that is slower than when it was recorded."""

    def step_s(self, shape: StepShape) -> float:
        """See `CostFunction`. Backfill is not priced."""
        passes, requests = float(shape.draft_passes), float(shape.num_requests)
        features = (
            *target_features(
                requests,
                shape.verified_draft_tokens,
                shape.prefill_tokens,
                shape.context_tokens,
                self.graphs,
            ),
            passes,
            passes * requests,
        )
        return self.pace * sum(map(float.__mul__, self.coefficients, features))


def cost_of(
    coefficients: Floats, graphs: GraphSizes, drafter: int = 0, pace: float = 1.0
) -> MeasuredCost:
    """The cost by fitted coefficients, with the draft model of recording number `drafter`."""
    num_shared, num_draft = len(SHARED_PRIOR), len(DRAFT_PRIOR)
    first = num_shared + num_draft * drafter
    chosen = (*coefficients[:num_shared], *coefficients[first : first + num_draft])
    return MeasuredCost(tuple(map(float, chosen)), graphs, pace)


def target_features(
    requests: float, verified: float, prefill: float, context: float, graphs: GraphSizes
) -> tuple[float, ...]:
    tokens = float(graphs.pad(requests + verified + prefill))
    return (
        1.0,
        requests,
        1.0 if verified > 0 else 0.0,
        verified,
        1e-3 * context,
        1.0 if prefill > 0 else 0.0,
        tokens,
        *(max(tokens - knot, 0.0) for knot in _KNOTS),
    )
