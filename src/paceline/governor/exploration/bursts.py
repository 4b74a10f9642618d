"""When is drafting tried again while it is off, where only drafting can tell how it would fare?

At draft length 0 nothing is learned about acceptance. Bursts at length 1: one or two steps, then
on, to `_MAX_STEPS`, as long as drafting would win if every position were accepted as those of the
burst were. The first bad verdicts end it: hopeless text costs a step or two. Length 1, because a
verdict on a first token is what tells hopeless text from other, and no other costs less: one more
token to verify per request, and where the draft model keeps up no draft pass.

Each step pays `StepForecast.price_s`, what it wastes should nothing be accepted; what is accepted while
the burst lasts is refunded, up to its price. Where the drafter rested while off, the first step
also pays what catching up takes, unrefunded: beforehand by what it took lately (see `catch_up`),
and what is measured then is settled. The account alone spaces the bursts. A burst begins when the
account covers its first steps, or is full and they are dearer.

How soon can a change be seen so? A step that wastes p (in steps at length 0) comes every p / share
steps, and a change waits for the next one, at worst that long. With a share of 0.4 % at most 50
steps thus need p <= 0.2. Where verifying one token per request doubles the arithmetic of a step
that is bound by it (256 requests on one H200: p = 0.7) it is 175 steps, and no spacing within 0.5 %
can make it fewer than 140. Where the draft model keeps up, its first token tells for free
(`StepSample.first_token_verdicts`); then there are no bursts.

In simulation the loss against off, over 12,000 steps of text where 2 to 30 % is accepted, is at
most 0.5 % and 12 steps for the start (most where off wins narrowly: one request, 2 % accepted,
drafting 8 % dearer). Reference: probing and its price, Cascade (arXiv 2506.20675).
"""

from __future__ import annotations

from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.catch_up import CatchUpCost
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen by hand on the simulator.
_PAUSE = 24
_FIRST_VERDICTS = 8
_MAX_FIRST_STEPS = 2
_MAX_STEPS = 8


class Bursts:
    """Tries drafting while it is off."""

    def __init__(self, account: ExplorationBudget, cost: CostModel) -> None:
        self._account = account
        self._catch_up = CatchUpCost(cost)
        self._steps_off = 0
        self._steps = 0  # of the burst under way; 0 when there is none
        self._judged = 0
        self._accepted = 0
        self._price_s = 0.0  # what has been paid for it and not been refunded
        self._token_s = 0.0  # per token, undrafted, at its load
        self._catch_up_paid_s = 0.0  # for the burst under way, before it was measured
        self._is_behind = False  # the drafter was catching up in the last step

    def switched_off(self) -> None:
        """Drafting has just ended."""
        self._steps_off = 0
        self._steps = 0

    def observe(self, sample: StepSample) -> None:
        """Settle with the account what the burst under way cost and earned."""
        catch_up_s = self._catch_up.observe(sample)
        self._is_behind = sample.catches_up
        if catch_up_s is not None:
            if self._steps > 0:
                self._account.pay(catch_up_s - self._catch_up_paid_s)
            self._catch_up_paid_s = 0.0
        if self._steps > 0:
            accepted = sum(sample.accepted)
            self._judged += len(sample.drafted)
            self._accepted += accepted
            refund_s = min(accepted * self._token_s, self._price_s)
            self._price_s -= refund_s
            self._account.pay(-refund_s)

    def probe(self, load: EngineLoad, forecast: StepForecast) -> DraftPlan | None:
        """A burst at length 1, as often as the account allows."""
        price_s = forecast.price_s(1, 0)
        first_steps = min(-(-_FIRST_VERDICTS // load.num_requests), _MAX_FIRST_STEPS)
        catch_up_s = self._catch_up.token_s * load.context_tokens
        if catch_up_s > 0.0:
            first_steps = _MAX_FIRST_STEPS  # the verdict comes a step later; no rest until then
        self._steps_off += 1
        if self._steps > 0:
            if self._judged > 0:
                goes_on = self._is_promising(forecast)
            else:  # a verdict that was paid for is waited for
                goes_on = self._steps < first_steps or self._is_behind
            goes_on = goes_on and self._steps < _MAX_STEPS
        else:
            goes_on = self._steps_off >= _PAUSE and self._account.covers(
                first_steps * price_s + catch_up_s, forecast.seconds[0]
            )
            if goes_on:
                self._judged = self._accepted = 0
                self._price_s = 0.0
                self._account.pay(catch_up_s)
                self._catch_up_paid_s = catch_up_s
        if not goes_on:
            if self._judged > 0 or self._steps_off >= _PAUSE:
                self._steps = 0
            return None
        self._steps_off = 0
        self._steps += 1
        self._price_s += price_s
        self._token_s = forecast.seconds[0] / forecast.tokens[0]
        self._account.pay(price_s)
        reason = "probe while off: has acceptance come back?"
        return DraftPlan(1, reason, is_exploring=True)

    def _is_promising(self, forecast: StepForecast) -> bool:
        """Whether drafting would win if every position were accepted as those of the burst were."""
        accept = self._accepted / self._judged
        survival, gained = 1.0, 1.0
        for tokens, value in zip(forecast.tokens[1:], forecast.values[1:], strict=True):
            survival *= accept
            gained += survival
            # A value is in proportion to its tokens.
            if value * gained * forecast.tokens[0] / tokens > forecast.values[0]:
                return True
        return False
