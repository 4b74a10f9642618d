"""The schedule of replay scoring: when the draft model scores finished text, and how much of it.

One pass over existing text shows what drafts of every depth would have had accepted
(`values.ReplayScores`), for a fraction of the cost of one drafting step: no verification, no
drafting for the whole batch, no catching up for requests that are not followed. So a return of
acceptance is seen within tens of steps while drafting is off, and while it is on the depths not
drafted are known too.

A request for scores computes `_TOKENS`. Where that could not judge anything, because the prompt was
prefilled while the drafter rested, the missing tokens are requested as well as soon as a separate
reserve can pay for them (a quarter of what the exploration budget earns), so that frequent scoring
never uses up the credit that a long prompt needs. Price:

    seconds = fixed + token * computed tokens

learned from the reports (`fading_line`). A request is paid for in advance and settled when its
report arrives. A request without a report is given up after `_PATIENCE` steps.
"""

from __future__ import annotations

import math

from paceline.governor.estimates.fading_line import FadingLine
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.values import StepSample

# All chosen empirically on the simulator.
_TOKENS = 128
_PAUSE = 16
"""Steps between a report and the next order; those from an order to its report are not clean."""
_SHORT_PAUSE = 4
"""After a report that could not judge anything."""
_PATIENCE = 64
_KEEP = 0.95
_RESERVE_SHARE = 0.001
_FIRST_RESERVE_STEPS = 4.0


class ReplayScoringSchedule:
    """Spaces the requests for replay scores by their price."""

    def __init__(self, budget: ExplorationBudget) -> None:
        self._budget = budget
        self._reserve = ExplorationBudget(_RESERVE_SHARE, first_steps=_FIRST_RESERVE_STEPS)
        self._payer = budget
        self._price = FadingLine(_KEEP)
        self._missing_tokens = 0
        self._paid_s: float | None = None  # for the request whose report is awaited
        self._steps_since = 0

    @property
    def most_token_s(self) -> float:
        """The most seconds that a token takes the draft model: those of a small pass, its fixed
        part included. Infinite before the first."""
        return self._price.at(_TOKENS) / _TOKENS or math.inf

    def observe(self, sample: StepSample) -> None:
        """Settle a request and learn its price, when the report has arrived."""
        report = sample.replay_scores
        if report is None:
            return
        self._payer.pay(report.seconds - (self._paid_s or 0.0))
        self._paid_s = None
        self._steps_since = 0
        self._missing_tokens = report.missing_tokens
        if report.computed_tokens > 0:
            self._price.add(report.computed_tokens, report.seconds)

    def due(self, step_s: float) -> int:
        """Tokens to request with this step, 0 for none. Counts the steps: call it once per step."""
        self._reserve.earn(step_s)
        self._budget.pay(_RESERVE_SHARE * step_s)
        self._steps_since += 1
        if self._paid_s is not None:
            pause = _PATIENCE
        else:
            pause = _SHORT_PAUSE if self._missing_tokens else _PAUSE
        if self._steps_since < pause:
            return 0
        candidates = [(self._budget, _TOKENS)]
        if self._missing_tokens:
            candidates.insert(0, (self._reserve, _TOKENS + self._missing_tokens))
        for payer, num_tokens in candidates:
            price_s = self._price.at(num_tokens)
            if payer.covers(price_s, step_s):
                payer.pay(price_s)
                self._payer, self._paid_s, self._steps_since = payer, price_s, 0
                return num_tokens
        return 0
