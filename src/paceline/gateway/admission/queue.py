"""`AdmissionQueue`: the bounded first-come, first-served queue before the replicas of one model.

It counts held slots and wakes waiting requests. `QueueForecast` decides which requests may wait;
the caller passes the deadline.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from paceline.gateway.admission.queue_forecast import QueueForecast
from paceline.gateway.admission.refusals import Overloaded, RefusalReason
from paceline.gateway.peers import SlotQuota, whole_quota
from paceline.gateway.settings import AdmissionSettings
from paceline.gateway.time_limits import IDLE_SLOT_WAIT_S

_RECHECK_S = 0.1
"""Period at which the capacity is read again while requests wait: new replicas are not announced
here."""
_NO_REPLICA_RETRY_S = 5
"""Retry-After when no replica is ready. Chosen empirically; the forecast cannot know when a replica
comes back."""


class AdmissionObserver(Protocol):
    """Is notified of changes of the queue. Its methods must not block or raise."""

    def queue_changed(self, by: int) -> None:
        """The number of waiting requests changed by this much."""
        ...

    def admission_refused(self, reason: RefusalReason) -> None:
        """A request was refused."""
        ...


class AdmissionQueue:
    """The queue of one model. `repr` shows it.

    At most `capacity()` slots are held, and no request waits while one is free. `capacity` is
    called for every request that arrives or ends: it must answer from memory. It may change at any
    time; when it falls, admitted requests keep their slots. All operations are O(1) in the length
    of the queue.

    When several processes serve the port, `quota` limits this one to a part of the capacity. If the
    part is full but other processes have idle slots, the request waits up to 0.5 s for one,
    whatever the limits on waiting. A request that has not got one by then is judged like any other,
    once, in time O(length of the queue). The forecast does not count such requests as waiting, as
    not every slot is held.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        capacity: Callable[[], int],
        observer: AdmissionObserver,
        quota: Callable[[int], SlotQuota] = whole_quota,
    ) -> None:
        self._capacity = capacity
        self._quota = quota
        self._observer = observer
        self._forecast = QueueForecast(settings)
        self._waiting: OrderedDict[Slot, asyncio.Future[None]] = OrderedDict()
        self._unjudged: set[Slot] = set()
        """Those among them that wait for an idle slot of another process."""
        self._recheck_timer: asyncio.TimerHandle | None = None
        self.num_held = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def slot(self, time_left_s: float) -> Slot:
        """An async context manager to enter once; the slot is held until it is left.

        `time_left_s` is the time that the request may still take, waiting included. Entering raises
        `Overloaded`: without suspending when the request may not wait, later when its wait has run
        out. A waiting request that is cancelled leaves the queue, and passes on a slot that it was
        given at the same moment.
        """
        return Slot(self, time_left_s)

    def recheck(self) -> None:
        """Admit waiting requests after a possible change of the capacity or the quota."""
        if self._waiting:
            self._admit_waiting(self._current_quota(), asyncio.get_running_loop().time())

    def _admit_or_queue(self, slot: Slot, now_s: float) -> asyncio.Future[None] | None:
        """Admit the request (None), queue it (the future ends its wait), or raise `Overloaded`."""
        quota = self._current_quota()
        self._admit_waiting(quota, now_s)
        if self.num_held < quota.limit:
            self.num_held += 1
            return None
        loop = asyncio.get_running_loop()
        if self.num_held + len(self._waiting) < quota.num_reachable:
            self._unjudged.add(slot)
            slot.timer = loop.call_later(IDLE_SLOT_WAIT_S, self._judge_late, slot)
        else:
            reason = self._judge(len(self._waiting) + 1, slot.time_left_s, quota, now_s)
            if reason is not None:
                raise self._refusal(reason, quota.num_slots, now_s)
            wait_s = self._forecast.longest_wait_s(slot.time_left_s)
            slot.timer = loop.call_later(max(wait_s, 0.0), self._expire, slot)
        granted = self._waiting[slot] = loop.create_future()
        self._queue_changed(1, quota.num_slots, now_s)
        if self._recheck_timer is None:
            self._recheck_timer = loop.call_later(_RECHECK_S, self._recheck_again)
        return granted

    def _judge(
        self, position: int, time_left_s: float, quota: SlotQuota, now_s: float
    ) -> RefusalReason | None:
        return self._forecast.judge(
            position, quota.num_slots, time_left_s, now_s, quota.num_waiting_elsewhere
        )

    def _judge_late(self, slot: Slot) -> None:
        """Judge a request that got no idle slot of another process.

        It has advanced in the queue by at least the number of slots.
        """
        loop = asyncio.get_running_loop()
        now_s, quota = loop.time(), self._current_quota()
        position = next(index for index, one in enumerate(self._waiting, 1) if one is slot)
        reason = self._judge(position, slot.time_left_s - IDLE_SLOT_WAIT_S, quota, now_s)
        if reason is not None:
            self._refuse_waiting(slot, reason, quota.num_slots, now_s)
            return
        self._unjudged.remove(slot)
        wait_s = self._forecast.longest_wait_s(slot.time_left_s) - IDLE_SLOT_WAIT_S
        slot.timer = loop.call_later(max(wait_s, 0.0), self._expire, slot)
        self._queue_changed(0, quota.num_slots, now_s)

    def _current_quota(self) -> SlotQuota:
        return self._quota(self._capacity())

    def _admit_waiting(self, quota: SlotQuota, now_s: float) -> None:
        """Give free slots to waiting requests, first come, first served."""
        while self._waiting and self.num_held < quota.limit:
            slot, granted = self._waiting.popitem(last=False)
            if not granted.done():  # a cancelled request is still listed until its task runs
                self.num_held += 1
                granted.set_result(None)
            self._left_queue(slot, quota.num_slots, now_s)

    def _expire(self, slot: Slot) -> None:
        """Refuse a request whose wait has run out."""
        now_s, num_slots = asyncio.get_running_loop().time(), self._current_quota().num_slots
        reason = RefusalReason.WAITED_TOO_LONG if num_slots else RefusalReason.NO_REPLICA
        self._refuse_waiting(slot, reason, num_slots, now_s)

    def _refuse_waiting(
        self, slot: Slot, reason: RefusalReason, num_slots: int, now_s: float
    ) -> None:
        granted = self._waiting.pop(slot)
        self._left_queue(slot, num_slots, now_s)
        if not granted.done():
            granted.set_exception(self._refusal(reason, num_slots, now_s))

    def _withdraw(self, slot: Slot, granted: asyncio.Future[None], now_s: float) -> None:
        """Remove a request that was cancelled while it waited, or just as its wait ended."""
        if slot in self._waiting:
            del self._waiting[slot]
            self._left_queue(slot, self._current_quota().num_slots, now_s)
        elif not granted.cancelled() and granted.exception() is None:
            self._release(now_s)

    def _release(self, now_s: float) -> None:
        self.num_held -= 1
        self._admit_waiting(self._current_quota(), now_s)

    def _ended(self, held_s: float, now_s: float) -> None:
        self._forecast.slot_ended(held_s, now_s)
        self._release(now_s)

    def _left_queue(self, slot: Slot, num_slots: int, now_s: float) -> None:
        assert slot.timer is not None
        slot.timer.cancel()
        self._unjudged.discard(slot)
        self._queue_changed(-1, num_slots, now_s)
        if not self._waiting and self._recheck_timer is not None:
            self._recheck_timer.cancel()
            self._recheck_timer = None

    def _recheck_again(self) -> None:
        loop = asyncio.get_running_loop()
        self._recheck_timer = loop.call_later(_RECHECK_S, self._recheck_again)
        self.recheck()

    def _queue_changed(self, by: int, num_slots: int, now_s: float) -> None:
        self._forecast.queue_changed(len(self._waiting) - len(self._unjudged), num_slots, now_s)
        self._observer.queue_changed(by)

    def _refusal(self, reason: RefusalReason, num_slots: int, now_s: float) -> Overloaded:
        self._observer.admission_refused(reason)
        if reason is RefusalReason.NO_REPLICA:
            return Overloaded(reason, _NO_REPLICA_RETRY_S)
        return Overloaded(reason, self._forecast.refuse(len(self._waiting), num_slots, now_s))

    def __repr__(self) -> str:
        return f"AdmissionQueue(num_held={self.num_held}, num_waiting={self.num_waiting})"


class Slot:
    """The right to have one request answered."""

    __slots__ = ("_began_at_s", "_queue", "time_left_s", "timer")

    def __init__(self, queue: AdmissionQueue, time_left_s: float) -> None:
        self._queue = queue
        self._began_at_s = 0.0
        self.time_left_s = time_left_s
        self.timer: asyncio.TimerHandle | None = None
        """Ends its wait; set by the queue."""

    async def __aenter__(self) -> Slot:
        loop = asyncio.get_running_loop()
        granted = self._queue._admit_or_queue(self, loop.time())
        if granted is not None:
            try:
                await granted
            except asyncio.CancelledError:
                self._queue._withdraw(self, granted, loop.time())
                raise
        self._began_at_s = loop.time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now_s = asyncio.get_running_loop().time()
        self._queue._ended(now_s - self._began_at_s, now_s)
