"""The default policy without the draft model's confidences: one draft length for all requests.

For `interleaved_trace.py`, where its distance from `goodput` is what the confidences are worth.
"""

from __future__ import annotations

from paceline.governor.policies.goodput import GoodputPolicy
from paceline.governor.policy_definition import PolicyDefinition


class GoodputLengthsPolicy(GoodputPolicy):
    """Neither ends drafts early nor verifies a part of them."""

    chooses_widths = False


POLICY = PolicyDefinition(
    name="goodput-lengths",
    summary="The length with the most expected tokens per second, without confidences.",
    create=GoodputLengthsPolicy,
    takes_max_step_s=True,
    takes_cost_table=True,
)
