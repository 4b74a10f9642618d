"""When is the draft model asked to judge in hindsight, and over how many tokens?

One pass over text that is already there says what drafts of every depth would have had accepted
(`values.ReplayScores`), for a fraction of what one step of drafting costs: no verification, no batch
that drafts, nothing to catch up for requests that are not followed. So while drafting is off its
return is seen within tens of steps, and while it is on the depths not drafted are known too.

An order computes `_TOKENS`. Where that could not judge anything, because the prompt was prefilled
while the drafter rested, what is missing is ordered besides as soon as a reserve of its own can pay
for it, so that looking often never leaves too little to look at all: a quarter of what the account
earns. Price:

    seconds = fixed + token * computed tokens

learned from the reports (`fading_line`). An order is paid beforehand, and
settled when its report comes. One that never comes is given up after `_PATIENCE` steps.
"""

from __future__ import annotations

from paceline.governor.estimates.fading_line import FadingLine
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.values import StepSample

# All chosen by hand on the simulator.
_TOKENS = 64
_PAUSE = 16
_SHORT_PAUSE = 4
"""After a look that could not judge anything."""
_PATIENCE = 64
_KEEP = 0.95
_RESERVE_SHARE = 0.001
_FIRST_RESERVE_STEPS = 4.0


class ReplayScoringSchedule:
    """Spaces the orders by what they cost."""

    def __init__(self, account: ExplorationBudget) -> None:
        self._account = account
        self._reserve = ExplorationBudget(_RESERVE_SHARE, first_steps=_FIRST_RESERVE_STEPS)
        self._payer = account
        self._price = FadingLine(_KEEP)
        self._missing_tokens = 0
        self._paid_s: float | None = None  # for the order whose report is awaited
        self._steps_since = 0

    @property
    def token_s(self) -> float:
        """Seconds per token that the draft model computes in one pass; 0 before the first."""
        return self._price.slope

    def observe(self, sample: StepSample) -> None:
        """Settle an order and learn its price, when the report has come."""
        report = sample.replay_scores
        if report is None:
            return
        self._payer.pay(report.seconds - (self._paid_s or 0.0))
        self._paid_s = None
        self._missing_tokens = report.missing_tokens
        if report.computed_tokens > 0:
            self._price.add(report.computed_tokens, report.seconds)

    def due(self, step_s: float) -> int:
        """Tokens to order with this step, 0 for none. Counts the steps: ask once a step."""
        self._reserve.earn(step_s)
        self._account.pay(_RESERVE_SHARE * step_s)
        self._steps_since += 1
        if self._paid_s is not None:
            pause = _PATIENCE
        else:
            pause = _SHORT_PAUSE if self._missing_tokens else _PAUSE
        if self._steps_since < pause:
            return 0
        orders = [(self._account, _TOKENS)]
        if self._missing_tokens:
            orders.insert(0, (self._reserve, _TOKENS + self._missing_tokens))
        for payer, num_tokens in orders:
            price_s = self._price.at(num_tokens)
            if payer.covers(price_s, step_s):
                payer.pay(price_s)
                self._payer, self._paid_s, self._steps_since = payer, price_s, 0
                return num_tokens
        return 0
