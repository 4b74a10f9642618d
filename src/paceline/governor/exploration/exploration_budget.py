"""A budget of seconds that bounds the time lost to exploration.

The budget earns a share of every step's expected time, and each exploration pays from it the time
that it may waste. It holds at most `_MAX_SAVED_STEPS` steps. An exploration that costs more than a
full budget may overdraw it; the debt is earned back before anything else is paid. So the time lost
is bounded under any load, and no exploration waits longer than `_MAX_SAVED_STEPS` / share steps
(after a debt: as long again as the debt takes to earn). The goal is 0.5 % of the time. The share is
lower, which leaves room for what no budget foresees: a lucky probe that switches on a losing
length. Changes of load add to it as long as exploring after them finds something (`load_change`).
"""

from __future__ import annotations

FIRST_TOKEN_SHARE = 0.002
"""Share of the time at length 0 that first-token verdicts may take in the workers. Half of the
exploration budget; chosen empirically."""

# Chosen empirically on the simulator.
_SHARE = 0.004
_FIRST_STEPS = 1.0
_MAX_SAVED_STEPS = 4.0


class ExplorationBudget:
    """Seconds saved for exploring; `share` of the time, starting with `first_steps` steps."""

    def __init__(self, share: float = _SHARE, *, first_steps: float = _FIRST_STEPS) -> None:
        self._share = share
        self._first_steps = first_steps
        self._credit_s: float | None = None

    def earn(self, step_s: float) -> None:
        """Add one step's share. Credit beyond a full budget is kept but not increased."""
        if self._credit_s is None:
            self._credit_s = self._first_steps * step_s
        full_s = _MAX_SAVED_STEPS * step_s
        if self._credit_s < full_s:
            self._credit_s = min(self._credit_s + self._share * step_s, full_s)

    def grant(self, num_steps: float, step_s: float) -> None:
        """Add the time of `num_steps` steps, up to a full budget."""
        if self._credit_s is not None:
            full_s = _MAX_SAVED_STEPS * step_s
            self._credit_s = max(self._credit_s, min(self._credit_s + num_steps * step_s, full_s))

    def covers(self, price_s: float, step_s: float) -> bool:
        """Whether the credit suffices, or the budget is full at steps of this length."""
        return self._credit_s is not None and self._credit_s >= min(
            price_s, _MAX_SAVED_STEPS * step_s
        )

    def pay(self, price_s: float) -> None:
        """Take `price_s` from the credit; a negative price is a refund."""
        if self._credit_s is not None:
            self._credit_s -= price_s
