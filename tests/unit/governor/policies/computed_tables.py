"""Policies `goodput` on tables of cost whose optima can be computed, and what they learn from.

Before the first sample a draft token is offered with 0.98 and accepted with 0.6, so survival is
0.588, 0.346, 0.203, … and one request gets 1, 1.588, 1.934, 2.137, 2.257, … tokens per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.contract.samples import ordinary_load, ordinary_sample
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from unit.governor.steady import MAX

LENGTHS = tuple(range(MAX + 1))
ONE = ordinary_load(MAX, num_requests=1, context_tokens=0)


def table(pass_s: float, *, token_s: float = 0.0) -> CostTable:
    """20 ms a step, `token_s` per request and token verified, `pass_s` a draft pass."""
    return CostTable(
        (1, 64),
        LENGTHS,
        tuple(tuple(0.02 + token_s * n * k for k in LENGTHS) for n in (1, 64)),
        (tuple(pass_s * k for k in LENGTHS),) * 2,
    )


NOT_WORTH_IT_S = 0.015
"""Of a pass, which then takes an acceptance of 0.75."""


def policy(pass_s: float, **options: Any) -> GoodputPolicy:
    token_s = options.pop("token_s", 0.0)
    return GoodputPolicy(MAX, cost_table=table(pass_s, token_s=token_s), **options)


def teach(
    policy: GoodputPolicy, accepted: Sequence[int], classes: Sequence[str] = (), steps: int = 30
) -> None:
    """Drafts of 8 tokens, of which these are accepted; nothing about costs."""
    count = len(accepted)
    for _ in range(steps):
        policy.observe(
            ordinary_sample(
                num_requests=count,
                requested_draft_length=MAX,
                drafted=(MAX,) * count,
                accepted=tuple(accepted),
                verified_draft_tokens=MAX * count,
                is_clean=False,
                classes=tuple(classes),
            )
        )
