"""May the governor spend time on learning now?

An account, in seconds, earns a share of every step's expected time, and what explores pays from it
what it may waste. A full account holds `_MAX_SAVED_STEPS` steps; who finds it full may go into debt
for something dearer, which is earned back before anything else. So the time lost to exploring is
bounded whatever the load does, and nothing is ever barred for more than `_MAX_SAVED_STEPS` / share
steps (of a debt, for as long again as it took). The goal is 0.5 % of the time; what is not given to
accounts is for what no account foresees: a lucky probe that switches on a losing length.
"""

from __future__ import annotations

FIRST_TOKEN_SHARE = 0.002
"""Of the time at length 0, what a worker may take that tells of first tokens
(`engine.first_token`). Half of what exploring has; chosen by hand."""

# Chosen by hand on the simulator.
_SHARE = 0.004
_FIRST_STEPS = 1.0
_MAX_SAVED_STEPS = 4.0


class ExplorationBudget:
    """Seconds saved for exploring. `share` is of the time; it begins with `first_steps` steps."""

    def __init__(self, share: float = _SHARE, *, first_steps: float = _FIRST_STEPS) -> None:
        self._share = share
        self._first_steps = first_steps
        self._credit_s: float | None = None

    def earn(self, step_s: float) -> None:
        """A step's share. What is saved beyond a full account stays, unearned."""
        if self._credit_s is None:
            self._credit_s = self._first_steps * step_s
        full_s = _MAX_SAVED_STEPS * step_s
        if self._credit_s < full_s:
            self._credit_s = min(self._credit_s + self._share * step_s, full_s)

    def covers(self, price_s: float, step_s: float) -> bool:
        """Whether there is enough, or the account is full at steps of this length."""
        return self._credit_s is not None and self._credit_s >= min(
            price_s, _MAX_SAVED_STEPS * step_s
        )

    def pay(self, price_s: float) -> None:
        """Negative: a refund."""
        if self._credit_s is not None:
            self._credit_s -= price_s
