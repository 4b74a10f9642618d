"""How long would a request wait, and is that worth its while?

Decisions on values: the rate at which slots become free, learned from those that did, and what is
said to a request that would have to wait. The queue itself is in `admission`.
"""

from __future__ import annotations

import math
from enum import StrEnum

from paceline.gateway.settings import AdmissionSettings
from paceline.gateway.sliding_sum import SlidingSum

_WINDOW_S = 30.0
"""Chosen by hand: ten to a hundred answers of usual length, and soon forgotten after a change."""
_NUM_HOLDS = 64
"""The mean time that a slot is held is taken over about so many of the last ones."""
_MOCK_VLLMG_SHARE = 0.8
"""A queue stands when somebody waits for this share of the time. Less calls a busy server of few
slots overloaded, more lets the queue of an overloaded one look empty now and then."""
_MOCK_VLLMG_FRACTION = 0.25
"""Longest wait once the queue stands, as a share of the time that a slot is held. Chosen in the
simulation of `tests/unit/gateway/test_overload.py`: under 3x the load with tight deadlines 0.1 to
0.25 keep most goodput; less lets slots idle between arrivals, more spends the deadlines waiting."""
MAX_RETRY_AFTER_S = 120
"""Clients ignore more."""


class RefusalReason(StrEnum):
    """Why a request is not let in; also the metric label."""

    QUEUE_FULL = "queue_full"
    WAIT_TOO_LONG = "wait_too_long"
    """It would wait too long, as far as can be known."""
    DEADLINE = "deadline"
    """It would not be complete by its own deadline."""
    WAITED_TOO_LONG = "waited_too_long"
    """It did wait, and the forecast was wrong."""
    NO_REPLICA = "no_replica"
    """There is no slot at all: no replica can take requests."""


class QueueForecast:
    """Learns from the slots of one model, and judges who may wait.

    wait = position / (slots · r), where r is the rate at which one slot becomes free,

        r = (ended + slots) / (slot seconds + slots · hold).

    `ended` and `slot seconds` are counted over the last 30 s while somebody waited, when every slot
    was held: their quotient is the measured rate. `hold` is the mean time of the last 64 or so
    slots, busy or not; it weighs as much as one round of all slots, so that there is a forecast at
    the first burst after a quiet time, when no rate under load has been seen. Both parts are per
    slot: when a replica leaves, the forecast follows at once.

    Who may wait: at most `max_queue_wait_s`, and such that wait + hold is within the request's
    deadline. When somebody waited for `max_queue_wait_s` of the last 1.25 times as long, the queue
    is a mock_vllmg one, which delays everybody and raises no throughput (Nichols and Jacobson,
    "Controlling queue delay", 2012; the two limits are Facebook's, Maurer, "Fail at scale", 2015):
    the wait allowed is then a quarter of `hold`. The first place in the queue is given even so, or
    slots would idle.

    Assumptions: requests are alike, in that any waiter takes the mean time once let in; the future
    is like the last 30 s. Where it fails: (1) before the first slot has ended nothing is known, and
    only `max_queue` bounds the queue; (2) after quiet times `hold` is that of an engine with few
    requests and too short, so the first of a burst wait longer than forecast, until as many have
    ended as there are slots; (3) requests ten times longer than the mean are let in that miss their
    deadline, and short ones are refused that would have kept it; (4) when replicas fail fast, slots
    end fast, and the forecast is too good.

    >>> forecast = QueueForecast(AdmissionSettings())
    >>> for second in range(64):
    ...     forecast.slot_ended(held_s=2.0, now_s=float(second))
    >>> forecast.wait_s(position=8, num_slots=4, now_s=64.0)
    4.0
    >>> forecast.judge(position=8, num_slots=4, time_left_s=5.0, now_s=64.0)
    <RefusalReason.DEADLINE: 'deadline'>
    """

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._num_ended = 0
        self._hold_s: float | None = None
        self._busy_ended = SlidingSum(_WINDOW_S)
        self._busy_slot_s = SlidingSum(_WINDOW_S)
        self._refused = SlidingSum(_WINDOW_S)
        self._counted_until_s = 0.0
        self._num_busy_slots = 0
        """Slots there are while somebody waits; 0 while nobody does."""
        self._waited = SlidingSum(settings.max_queue_wait_s / _MOCK_VLLMG_SHARE)
        """Seconds in which somebody waited."""

    def queue_is(self, num_waiting: int, num_slots: int, now_s: float) -> None:
        """Tell it after every change. Mutates."""
        self._count_until(now_s)
        self._num_busy_slots = num_slots if num_waiting else 0

    def slot_ended(self, held_s: float, now_s: float) -> None:
        """A request that had been let in is over. Mutates."""
        self._count_until(now_s)
        if self._num_busy_slots:
            self._busy_ended.add(1, now_s)
        self._num_ended = min(self._num_ended + 1, _NUM_HOLDS)
        if self._hold_s is None:
            self._hold_s = held_s
        else:
            self._hold_s += (held_s - self._hold_s) / self._num_ended

    def wait_s(self, position: int, num_slots: int, now_s: float) -> float | None:
        """How long the waiter at this position (1 is next) will wait; None while not known."""
        if self._hold_s is None or num_slots < 1:
            return None
        self._count_until(now_s)
        slot_s = self._busy_slot_s.total(now_s) + num_slots * self._hold_s
        if slot_s <= 0:
            return 0.0
        return position * slot_s / (num_slots * (self._busy_ended.total(now_s) + num_slots))

    def longest_wait_s(self, time_left_s: float) -> float:
        """How long a request may wait at most and still be complete in time; may be negative."""
        return min(self._settings.max_queue_wait_s, time_left_s - (self._hold_s or 0.0))

    def judge(
        self,
        position: int,
        num_slots: int,
        time_left_s: float,
        now_s: float,
        num_waiting_elsewhere: int = 0,
    ) -> RefusalReason | None:
        """Why a request should not take this position in the queue; None when it may.

        Those that wait elsewhere wait for other slots, but fill the queue as well.
        """
        if num_slots < 1:
            return RefusalReason.NO_REPLICA
        if position + num_waiting_elsewhere > self._settings.max_queue:
            return RefusalReason.QUEUE_FULL
        wait_s = self.wait_s(position, num_slots, now_s)
        if wait_s is None or self._hold_s is None:
            return None
        if wait_s + self._hold_s > time_left_s:
            return RefusalReason.DEADLINE
        if wait_s > self._settings.max_queue_wait_s:
            return RefusalReason.WAIT_TOO_LONG
        stands = self._waited.total(now_s) >= self._settings.max_queue_wait_s
        if position > 1 and stands and wait_s > _MOCK_VLLMG_FRACTION * self._hold_s:
            return RefusalReason.WAIT_TOO_LONG
        return None

    def refuse(self, num_waiting: int, num_slots: int, now_s: float) -> int:
        """Note a refusal, and say after how many seconds to come again. Mutates.

        The wait of somebody who stands behind all who wait and all who were refused in the last
        30 s: they will come again too, and whoever is refused later is sent away for longer, so
        that they do not come all at once.
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
