"""The default policy with the draft model's confidences in every step, however short.

For `interleaved_trace.py`: its distance from `goodput` is what reading them costs and gains where
steps are short.
"""

from __future__ import annotations

from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.governor.values import EngineLoad


class GoodputConfidentPolicy(GoodputPolicy):
    """Reads confidences wherever the engine reports them."""

    def _wants_confidences(self, load: EngineLoad, step_s: float) -> bool:
        return load.reports_confidences


POLICY = PolicyDefinition(
    name="goodput-confident",
    summary="The default policy with the draft model's confidences in every step.",
    create=GoodputConfidentPolicy,
    takes_max_step_s=True,
    takes_cost_table=True,
)
