"""A step of the simulated engine between its scheduling and its results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.runtime.governor.values import EngineLoad
from paceline.testing.policy_simulator.engine.batch import Ints


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedStep:
    """A scheduled step whose results are pending."""

    scheduled_s: float
    slots: Ints
    serials: Ints
    scheduled: Ints
    """Tokens per request."""
    verified: Ints
    """Draft tokens among them."""
    num_verified: int
    emits: Ints
    """1 where the step yields output, 0 where it computes part of a prompt."""
    load: EngineLoad
    requested: Ints
    """Draft tokens requested of each by the step that drafted, 0 where the draft model had not
    caught up; -1 for a request that joins, or that prefilled in it."""
    draft_length: int
    catch_up_tokens: int
    is_behind: bool
    """Whether the draft model has not caught up yet, and therefore drafts nothing."""

    @property
    def requested_draft_length(self) -> int:
        return max(int(np.maximum.reduce(self.requested)), 0)
