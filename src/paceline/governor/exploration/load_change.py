"""How much more may be explored after a change of load.

What was measured at one load says little about the costs at another, and other requests are other
text. So exploration is worth most after a change of load: the best length has probably changed, and
the new one stays the best for as long as the load lasts. The budget is granted some steps then,
beyond its share of the time (`ExplorationBudget.grant`).

A load counts as another one when it is at least `_FACTOR` times as high or as low as at the last
grant. Grants are at least `_PAUSE` steps apart. A grant after which the draft length stayed as it
was, for as long as the load did, has found nothing: the next one is smaller by `_DECAY`. So where
the best length of each load is known, all grants together are less than four full ones, however the
load changes. One that finds something makes the next one a full one again.
"""

from __future__ import annotations

# All chosen empirically on the simulator.
_FACTOR = 2.0
_PAUSE = 48
_STEPS = 2.0
_DECAY = 0.7


class LoadChange:
    """Compares the load of each step with the load at the last grant."""

    def __init__(self) -> None:
        self._num_requests: int | None = None
        self._length: int | None = None  # at the last grant
        self._next = _STEPS
        self._steps_since = 0

    def granted_steps(self, num_requests: int, length: int) -> float:
        """How many steps to grant in this step, mostly 0. `length` is the one in force; the first
        load, above 0, is no change. Counts the steps: call it once per step."""
        self._steps_since += 1
        before = self._num_requests or num_requests
        self._num_requests = before
        is_other = num_requests >= _FACTOR * before or before >= _FACTOR * num_requests
        if not is_other and length != self._length:
            self._next = _STEPS
        if not is_other or self._steps_since < _PAUSE:
            return 0.0
        granted = self._next
        self._next = _DECAY * granted
        self._num_requests, self._length = num_requests, length
        self._steps_since = 0
        return granted
