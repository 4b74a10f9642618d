"""Short bursts of drafting while it is off, for engines where only drafting shows acceptance.

At draft length 0 nothing is learned about acceptance. A burst drafts at length 1 for one or two
steps, and continues, up to `_MAX_STEPS`, as long as drafting would win if every position were
accepted as often as those of the burst. The first bad verdicts end it: hopeless text costs a step
or two. Length 1 is used because a verdict on the first token is what separates hopeless text from
other text, and because no other length costs less: one more token to verify per request, and no
extra draft pass where the draft model keeps up.

Each step pays `StepForecast.price_s`, the time it wastes if nothing is accepted. After the burst
the sum is settled with the time that its steps took and the tokens that they yielded
(`settlement`). Where the drafter rested while off, the first step
also pays for catching up, without refund: beforehand by the latest estimate (see `catch_up`), then
settled with the measurement. The exploration budget alone sets the distance between bursts. A burst
starts when the budget covers its first steps, or is full while they cost more.

Time to detect a change: a step that wastes p (in steps at length 0) comes every p / share steps,
and a change waits for the next one, at worst that long. With a share of 0.4 %, at most 50 steps
thus need p <= 0.2. Where verifying one token per request doubles the arithmetic of a step that is
bound by it (256 requests on one H200: p = 0.7) it takes 175 steps, and no spacing within 0.5 % can
bring it below 140. Where the draft model keeps up, first-token verdicts are free
(`StepSample.first_token_verdicts`) and no bursts are made.

In simulation the loss against off, over 12,000 steps of text where 2 to 30 % is accepted, is at
most 0.5 % and 12 steps for the start (most where off wins narrowly: one request, 2 % accepted,
drafting 8 % more expensive). Reference: probing and its price, Cascade (arXiv 2506.20675).
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.catch_up import CatchUpCost
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.settlement import Settlement
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen empirically on the simulator.
_PAUSE = 24
_FIRST_VERDICTS = 8
_MAX_FIRST_STEPS = 2
_MAX_STEPS = 8


class Bursts:
    """Drafts for a few steps now and then while drafting is off."""

    def __init__(self, budget: ExplorationBudget, cost: CostModel) -> None:
        self._budget = budget
        self.catch_up = CatchUpCost(cost)
        """Measured in all steps that catch up, in bursts or not. Read only."""
        self._steps_off = 0
        self._steps = 0  # of the burst under way; 0 when there is none
        self._judged = 0  # since the last burst started
        self._accepted = 0
        self._settlement = Settlement(budget)
        self._catch_up_paid_s = 0.0  # for the burst under way, before it was measured
        self._is_catching_up = False  # the drafter was catching up in the last step

    def switched_off(self) -> None:
        """Drafting has just ended."""
        self._steps_off = 0
        self._steps = 0

    def hasten(self) -> None:
        """Burst as soon as the budget covers it."""
        self._steps_off = _PAUSE

    def observe(self, sample: StepSample) -> None:
        """Count the verdicts and settle the cost of the burst under way."""
        self._settlement.observe(sample)
        catch_up_s = self.catch_up.observe(sample)
        self._is_catching_up = sample.catches_up
        if catch_up_s is not None:
            if self._steps > 0:
                self._budget.pay(catch_up_s - self._catch_up_paid_s)
            self._catch_up_paid_s = 0.0
        self._judged += len(sample.drafted)
        self._accepted += sum(sample.accepted)

    def probe(self, load: EngineLoad, forecast: StepForecast) -> DraftPlan | None:
        """A step of a burst at length 1, as often as the budget allows; else None."""
        allowed = load.allowed_below(len(forecast.values))
        if len(allowed) == 1:
            return None
        shortest = allowed[1]
        price_s = forecast.price_s(shortest, 0)
        first_steps = min(-(-_FIRST_VERDICTS // load.num_requests), _MAX_FIRST_STEPS)
        catch_up_s = self.catch_up.token_s * load.context_tokens
        if catch_up_s > 0.0:
            first_steps = _MAX_FIRST_STEPS  # the verdict comes a step later; no rest until then
        self._steps_off += 1
        if self._steps > 0:
            if self._judged > 0:
                is_due = self._is_promising(forecast, allowed)
            else:  # the burst waits for the verdict it has paid for
                is_due = self._steps < first_steps or self._is_catching_up
            is_due = is_due and self._steps < _MAX_STEPS
        else:
            is_due = self._steps_off >= _PAUSE and self._budget.covers(
                first_steps * price_s + catch_up_s, forecast.seconds[0]
            )
            if is_due:
                self._judged = self._accepted = 0
                self._budget.pay(catch_up_s)
                self._catch_up_paid_s = catch_up_s
        if not is_due:
            if self._judged > 0 or self._steps_off >= _PAUSE:
                self._steps = 0
            return None
        self._steps_off = 0
        self._steps += 1
        self._settlement.pay(
            price_s,
            length=shortest,
            token_s=forecast.seconds[0] / forecast.tokens[0],
        )
        return DraftPlan(shortest, "probe while off: measuring acceptance", is_exploring=True)

    def _is_promising(self, forecast: StepForecast, allowed: Sequence[int]) -> bool:
        """Whether drafting an allowed length would win if every position were accepted as often as
        the burst's."""
        accept = self._accepted / self._judged
        survival, gained = 1.0, 1.0
        for length in range(1, len(forecast.values)):
            tokens, value = forecast.tokens[length], forecast.values[length]
            survival *= accept
            gained += survival
            # A value is proportional to its tokens.
            if (
                length in allowed
                and value * gained * forecast.tokens[0] / tokens > forecast.values[0]
            ):
                return True
        return False
