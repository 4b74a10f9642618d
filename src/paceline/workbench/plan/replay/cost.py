"""The time of an engine step as a function of its work, with the prior of its coefficients.

    seconds = table * measured(n, v, k, c)
            + base + request * n + judge * [v > 0] + verify * v + context * c + mixed * [p > 0]
            + token * t + sum of bend_i * max(t - knot_i, 0)
            + pass * k + draft * n * k

with n requests, v draft tokens verified, p prompt tokens, c thousand tokens of context, k passes of
the draft model, and t the tokens of the target's pass, n + v + p, padded to a captured graph. A
token to verify also needs its logits and the rejection sampler, unlike one of a prompt. The bends
are where a pass ceases to be bound by reading the weights: arithmetic over bandwidth is some tens
of tokens on CPUs and some hundreds on GPUs. No coefficient is negative.

`measured` is the table of costs that the engine measured at its start, where the recording holds
one: it has lengths and numbers of requests that were never recorded. The other coefficients then
price prompts, of which a table has none, and small corrections; t counts a pass's tokens beyond
those without its prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import GraphSizes

Floats = npt.NDArray[np.float64]

_KNOTS = (32.0, 64.0, 128.0, 256.0, 512.0)
"""Tokens. Prompt tokens are within a factor of two in a cell, so closer knots could not be kept
apart."""

SHARED_PRIOR = {
    "table": (0.0, 1.0),
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
_OF_PROMPTS = ("mixed", "token", *(name for name in SHARED_PRIOR if name.startswith("bend")))
_TABLE_PRIOR = (1.0, 0.2)
"""Of the factor on a table, which other work on the machine changes from day to day."""
_CORRECTION = 0.1
"""Spread of the coefficients of work that a table prices, relative to that without a table."""


def prior_of(num_drafters: int, unit_s: float, *, has_tables: bool) -> Floats:
    """Mean and spread of all coefficients, (num_features, 2), for a shortest cell of `unit_s`."""
    rows = []
    for name, (mean, spread) in [*SHARED_PRIOR.items(), *(num_drafters * [*DRAFT_PRIOR.items()])]:
        if name == "table":
            rows.append(_TABLE_PRIOR if has_tables else (mean, spread))
        elif has_tables and name not in _OF_PROMPTS:
            rows.append((0.0, _CORRECTION * spread * unit_s))
        else:
            rows.append((mean * unit_s, spread * unit_s))
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """A `CostFunction` of the policy simulator."""

    coefficients: tuple[float, ...]
    """The shared ones, then those of the draft model, seconds per unit of the feature."""
    graphs: GraphSizes
    pace: float = 1.0
    """Factor on every step: a machine that is slower than when it was recorded."""
    table: CostModel | None = None
    """What the engine measured at its start; nothing is observed with it here."""

    def step_s(self, shape: StepShape) -> float:
        """See `CostFunction`. Backfill is not priced."""
        passes, requests = float(shape.draft_passes), float(shape.num_requests)
        features = (
            *target_features(
                shape.num_requests,
                shape.verified_draft_tokens,
                shape.prefill_tokens,
                shape.context_tokens,
                shape.draft_passes,
                self.graphs,
                self.table,
            ),
            passes,
            passes * requests,
        )
        return self.pace * sum(map(float.__mul__, self.coefficients, features))


def cost_of(
    coefficients: Floats,
    graphs: GraphSizes,
    drafter: int = 0,
    pace: float = 1.0,
    table: CostModel | None = None,
) -> MeasuredCost:
    """The cost by fitted coefficients, with the draft model of recording number `drafter`."""
    num_shared, num_draft = len(SHARED_PRIOR), len(DRAFT_PRIOR)
    first = num_shared + num_draft * drafter
    chosen = (*coefficients[:num_shared], *coefficients[first : first + num_draft])
    return MeasuredCost(tuple(map(float, chosen)), graphs, pace, table)


def target_features(
    requests: int,
    verified: float,
    prefill: float,
    context: float,
    passes: int,
    graphs: GraphSizes,
    table: CostModel | None = None,
) -> tuple[float, ...]:
    """What the coefficients of `SHARED_PRIOR` multiply."""
    tokens = float(graphs.pad(requests + verified + prefill))
    table_s = priced = 0.0
    if table is not None:
        table_s = table.load(requests, round(context)).step_s(verified, passes)
        priced = float(graphs.pad(requests + verified))
    return (
        table_s,
        1.0,
        requests,
        1.0 if verified > 0 else 0.0,
        verified,
        1e-3 * context,
        1.0 if prefill > 0 else 0.0,
        tokens - priced,
        *(max(tokens - knot, 0.0) - max(priced - knot, 0.0) for knot in _KNOTS),
    )
