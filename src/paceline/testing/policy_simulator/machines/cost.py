"""The duration of an engine step in virtual seconds, as a linear function of measured figures.

    seconds = base + request * n + judge * [drafts > 0] + token * (padded - n) + context * c
              + passes * (draft_pass + draft_request * n) + catch_up * missed

with n requests, c thousand tokens of context, and `padded` the tokens of the step (one per request,
draft tokens to verify, prompt tokens) rounded up to a captured graph size. Verifying anything at
all costs `judge`, since the rejection sampler then runs instead of the plain one. Also here:
`StepShape`, the work of a step for every cost function; `roofline` has the other cost function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS, GraphSizes


@dataclass(frozen=True, slots=True)
class StepShape:
    """The work of one step."""

    num_requests: int
    verified_draft_tokens: float
    prefill_tokens: float
    """Prompt tokens beyond one per request."""
    context_tokens: float
    draft_passes: int
    """Forward passes of the draft model; the first sees all tokens of the step."""
    catch_up_tokens: int = 0
    """Tokens the draft model has to compute first because it rested."""
    tokens_per_request: int | None = None
    """The number of tokens of every request; None where they differ, or one is prefilling."""

    @property
    def tokens(self) -> float:
        return self.num_requests + self.verified_draft_tokens + self.prefill_tokens


class CostFunction(Protocol):
    """Seconds of a step, without noise. Pure; work never takes negative time."""

    def step_s(self, shape: StepShape) -> float: ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Step time as a linear function, fitted to measurements."""

    base_s: float
    request_s: float
    judge_s: float
    token_s: float
    """Each token verified or prefilled, beyond one per request."""
    context_ktoken_s: float
    draft_pass_s: float
    draft_request_s: float
    """Each request in each draft pass."""
    catch_up_token_s: float = 0.0
    graphs: GraphSizes = NO_GRAPHS

    def step_s(self, shape: StepShape) -> float:
        num_requests = shape.num_requests
        return (
            self.base_s
            + self.request_s * num_requests
            + (self.judge_s if shape.verified_draft_tokens > 0 else 0.0)
            + self.token_s * (self.graphs.pad(shape.tokens) - num_requests)
            + self.context_ktoken_s * 1e-3 * shape.context_tokens
            + shape.draft_passes * (self.draft_pass_s + self.draft_request_s * num_requests)
            + self.catch_up_token_s * shape.catch_up_tokens
        )
