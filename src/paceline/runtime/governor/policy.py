"""The boundary between the governor and the engine or simulator that drives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample


class Policy(Protocol):
    """Turns measured steps into draft lengths.

    Both methods run in the engine's step loop: they must not block, read a clock or do I/O, and
    must take microseconds. They may raise; the caller then falls back to the engine's static
    setting and counts the error.

    `contract.find_broken_promises` checks what these docstrings promise.
    """

    def observe(self, sample: StepSample) -> None:
        """Learn from one finished step. Mutates the policy, never the sample.

        Samples arrive in order, but some are missing, some are stale, and durations may be None, 0
        or absurd.
        """
        ...

    def plan(self, load: EngineLoad) -> DraftPlan:
        """Choose the draft length for the next proposal, 0 (off) to `load.max_draft_length`, among
        `load.allowed_lengths`.

        May mutate the policy. The plan is valid for the next step only.
        With nothing observed yet the policy answers from its prior. An empty load (no requests) is
        valid; any plan will do. The same samples and loads give the same plans.
        """
        ...


@runtime_checkable
class KnowsStepTime(Protocol):
    """A policy that predicts how long a step takes."""

    step_seconds: Sequence[float]
    """Seconds of a step without prompt tokens at each draft length from 0 on, under the load of the
    last plan that needed them; shape (num_lengths,), empty before. Each is above 0."""


@runtime_checkable
class ChoosesWidths(Protocol):
    """A policy that chooses how many drafts of each request are verified."""

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        """Draft tokens of each request to verify, (num_requests,), from 0 to num_passes.

        Called after a step has drafted by the latest plan, if that had a rule, with the draft
        model's confidences, (num_requests, num_passes), and the class of each request. `limits` has
        the tokens that can be verified, (num_requests,), fewer than num_passes where a cap or a
        grammar shortened the draft. No width may depend on the drafted tokens, so none on a limit,
        which the engine applies itself (see `drafting.drafting_round`). Mutates the policy: it sets
        the price of the next step.
        """
        ...
