"""`QueueForecast`: predicts how long a request would wait for a slot, and refuses it if too long.

It learns the rate at which slots become free from the slots that were released. It does no I/O and
reads no clock; the queue itself is `queue.AdmissionQueue`.
"""

from __future__ import annotations

import math

from paceline.runtime.gateway.admission.refusals import RefusalReason
from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.runtime.gateway.sliding_sum import SlidingSum

_WINDOW_S = 30.0
"""Chosen empirically: covers 10 to 100 answers of usual length, and forgets a change soon."""
_NUM_HOLDS = 64
"""The mean hold time is taken over about this many of the last releases."""
_STANDING_QUEUE_SHARE = 0.8
"""A queue is standing when requests waited for this share of the time. A smaller share would call
a busy server with few slots overloaded; a larger one would sometimes miss a real overload."""
_STANDING_QUEUE_FRACTION = 0.25
"""Longest wait in a standing queue, as a share of the mean hold time. Chosen in the simulation of
`tests/unit/gateway/admission/test_overload.py`: at 3x the load with tight deadlines, 0.1 to 0.25
keep most goodput. A smaller share leaves slots idle between arrivals; with a larger one requests
spend their deadlines waiting."""
MAX_RETRY_AFTER_S = 120
"""Clients ignore longer times."""


class QueueForecast:
    """Learns from released slots of one model, and decides which requests may wait.

        wait = position / (slots * r), where r is the rate at which one slot becomes free:
        r = (ended + slots) / (slot seconds + slots * hold).

    `ended` and `slot seconds` are counted over the last 30 s while requests waited, so while every
    slot was held: their quotient is the measured rate. `hold` is the mean time for which the last
    64 or so slots were held, under load or not. It weighs as much as one round of all slots, which
    gives a forecast at the first burst after a quiet time, when no rate under load is known. Both
    parts are per slot: when a replica leaves, the forecast follows at once.

    A request may wait at most `max_queue_wait_s`, and only if wait + hold fits into its deadline. A
    queue in which requests waited for `max_queue_wait_s` of the last 1.25 `max_queue_wait_s` is a
    standing queue: it delays every request and raises no throughput (Nichols and Jacobson,
    "Controlling queue delay", 2012; the two limits are Facebook's, Maurer, "Fail at scale", 2015).
    The longest wait is then a quarter of `hold`. A request with none before it may always wait,
    or slots would idle.

    Assumptions: requests are alike, so any waiting request will hold its slot for the mean time;
    the future is like the last 30 s. Where it fails: (1) before the first slot is released nothing
    is known, and only `max_queue` bounds the queue; (2) after a quiet time `hold` is that of an
    engine with few requests and too short, so the first requests of a burst wait longer than
    forecast, until as many have ended as there are slots; (3) it admits requests ten times longer
    than the mean that miss their deadline, and refuses short ones that would have met it; (4) when
    replicas fail fast, slots are released fast, and the forecast is too short.

    >>> forecast = QueueForecast(AdmissionSettings())
    >>> for second in range(64):
    ...     forecast.slots_ended(held_s=2.0, now_s=float(second))
    >>> forecast.wait_s(position=8, num_slots=4, now_s=64.0)
    4.0
    >>> forecast.judge(position=8, num_slots=4, time_left_s=5.0, now_s=64.0, num_ahead=7)
    <RefusalReason.DEADLINE: 'deadline'>
    """

    _counted_until_s: float
    """Set by the first change."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._num_ended = 0
        self._hold_s: float | None = None
        self._busy_ended = SlidingSum(_WINDOW_S)
        self._busy_slot_s = SlidingSum(_WINDOW_S)
        self._refused = SlidingSum(_WINDOW_S)
        self._num_busy_slots = 0
        """Number of slots while requests wait; 0 while none waits."""
        self._waited = SlidingSum(settings.max_queue_wait_s / _STANDING_QUEUE_SHARE)
        """Seconds during which requests waited."""

    def queue_changed(self, num_waiting: int, num_slots: int, now_s: float) -> None:
        """Note the queue's length; call it after every change. Mutates."""
        self._count_until(now_s)
        self._num_busy_slots = num_slots if num_waiting else 0

    def slots_ended(self, held_s: float, now_s: float, num_slots: int = 1) -> None:
        """Note that an admitted request with this many slots has ended. Mutates."""
        self._count_until(now_s)
        if self._num_busy_slots:
            self._busy_ended.add(num_slots, now_s)
        self._num_ended = min(self._num_ended + num_slots, _NUM_HOLDS)
        if self._hold_s is None:
            self._hold_s = held_s
        else:
            self._hold_s += (held_s - self._hold_s) * min(num_slots / self._num_ended, 1.0)

    def wait_s(self, position: float, num_slots: int, now_s: float) -> float | None:
        """Forecast wait until this many slots have become free; None while not known."""
        if self._hold_s is None or num_slots < 1:
            return None
        self._count_until(now_s)
        slot_s = self._busy_slot_s.total(now_s) + num_slots * self._hold_s
        return position * slot_s / (num_slots * (self._busy_ended.total(now_s) + num_slots))

    def longest_wait_s(self, time_left_s: float) -> float:
        """Longest wait after which the answer can still be complete in time; may be negative."""
        return min(self._settings.max_queue_wait_s, time_left_s - (self._hold_s or 0.0))

    def judge(
        self,
        position: float,
        num_slots: int,
        time_left_s: float,
        now_s: float,
        *,
        num_ahead: int,
        num_waiting_elsewhere: int = 0,
    ) -> RefusalReason | None:
        """The reason to refuse a request; None when it may wait.

        `position` counts the slots that must become free until it has its own; `num_ahead`
        requests wait before it. Requests that wait in other processes count towards `max_queue`,
        but wait for other slots.
        """
        if num_slots < 1:
            return RefusalReason.NO_REPLICA
        if num_ahead + 1 + num_waiting_elsewhere > self._settings.max_queue:
            return RefusalReason.QUEUE_FULL
        wait_s = self.wait_s(position, num_slots, now_s)
        if wait_s is None or self._hold_s is None:
            return None
        if wait_s + self._hold_s > time_left_s:
            return RefusalReason.DEADLINE
        if wait_s > self._settings.max_queue_wait_s:
            return RefusalReason.WAIT_TOO_LONG
        is_standing = self._waited.total(now_s) >= self._settings.max_queue_wait_s
        if num_ahead and is_standing and wait_s > _STANDING_QUEUE_FRACTION * self._hold_s:
            return RefusalReason.WAIT_TOO_LONG
        return None

    def refuse(self, num_waiting: int, num_slots: int, now_s: float) -> int:
        """Count a refusal and return its Retry-After in seconds. Mutates.

        It is the forecast wait after all waiting sequences and all requests refused in the last 30
        s, since their clients will retry too. Later refusals get longer times, so that the clients
        do not all return at once.
        """
        self._refused.add(1, now_s)
        position = num_waiting + math.ceil(self._refused.total(now_s))
        wait_s = self.wait_s(position, num_slots, now_s) or 0.0
        return max(1, min(math.ceil(wait_s), MAX_RETRY_AFTER_S))

    def _count_until(self, now_s: float) -> None:
        """Add the time since the last call, during which nothing changed."""
        if self._num_busy_slots and now_s > self._counted_until_s:
            passed_s = now_s - self._counted_until_s
            self._busy_slot_s.add(passed_s * self._num_busy_slots, now_s)
            self._waited.add(passed_s, now_s)
        self._counted_until_s = now_s
