"""`AdmissionQueue`: the bounded queue before the replicas of one model.

It takes slots for the oldest requests and wakes them. `SlotSource` finds the replica, and
`QueueForecast` decides which requests may wait; the caller passes the deadline.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from paceline.runtime.gateway.admission.queue_forecast import QueueForecast
from paceline.runtime.gateway.admission.refusals import Overloaded, RefusalReason
from paceline.runtime.gateway.admission.slot_source import SlotClaim, SlotSource
from paceline.runtime.gateway.admission.waiting_requests import Lane, WaitingRequests, lane_of
from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestPlan
from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.runtime.gateway.time_limits import IDLE_SLOT_WAIT_S

_RECHECK_S = 0.1
"""Period at which the slots are read again while requests wait: new replicas are not announced
here."""
_NO_REPLICA_RETRY_S = 5
"""Retry-After when no replica is ready. Chosen empirically; the forecast cannot know when a replica
comes back."""
_MAX_FORECASTS = 64
"""Kinds of needs that one queue remembers. A kind may name an adapter, of which there may be any
number; all of them are updated at the end of each request."""

C = TypeVar("C", bound=SlotClaim)

Quotas = Mapping[str, SlotQuota]
"""By replica."""


class AdmissionObserver(Protocol):
    """Is notified of changes of the queue. Its methods must not block or raise."""

    def queue_changed(self, by: int) -> None:
        """The number of waiting requests changed by this much."""
        ...

    def admission_refused(self, reason: RefusalReason) -> None:
        """A request was refused."""
        ...


class AdmissionQueue(Generic[C]):
    """The queue of one model. `repr` shows it.

    A request is admitted when one replica that can serve it has slots for all its sequences. The
    oldest request that fits is next: requests that need other replicas, or fewer slots, pass one
    that does not fit, but not onto the replica with the most free slots among those that could
    serve it. That one is spared until it has enough, so a large request is not overtaken for ever.

    No request waits while it fits. An admitted request keeps its slots whatever happens to the
    limits. Admitting takes a time that depends on the number of different needs and sizes, not on
    the number of waiting requests.

    When several processes serve the port, each has a quota of every replica's slots. If the quotas
    are used up but other processes have idle slots, the request waits up to 0.5 s for them,
    whatever the limits on waiting. A request that has not got them by then is judged like any
    other, once, in time O(length of the queue). The forecast does not count such requests as
    waiting, as not every slot is held.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        slots: SlotSource[C],
        observer: AdmissionObserver,
        num_waiting_elsewhere: Callable[[], int] = lambda: 0,
    ) -> None:
        """`num_waiting_elsewhere` returns the requests that wait in other processes."""
        self._settings = settings
        self._slots = slots
        self._observer = observer
        self._num_waiting_elsewhere = num_waiting_elsewhere
        self._forecasts: dict[NeedsKind, QueueForecast] = {}
        """By the needs of the requests: the rate of their replicas. Least recently used first."""
        self._waiting: WaitingRequests[Slot[C]] = WaitingRequests()
        self._unjudged: set[Slot[C]] = set()
        """Those among them that wait for idle slots of other processes."""
        self._num_unjudged: Counter[NeedsKind] = Counter()
        self._num_arrived = 0
        self._recheck_timer: asyncio.TimerHandle | None = None
        self.num_held = 0
        """Requests that were admitted and have not ended."""

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def slot(self, plan: RequestPlan, time_left_s: float) -> Slot[C]:
        """An async context manager to enter once; `Slot.claim` has the slots taken.

        `time_left_s` is the time that the request may still take, waiting included. Entering raises
        `Overloaded`: without suspending when the request may not wait, later when its wait has run
        out. A waiting request that is cancelled leaves the queue, and passes on slots that it was
        given at the same moment.
        """
        return Slot(self, plan, time_left_s)

    def recheck(self) -> None:
        """Admit waiting requests after a possible change of the replicas or the quotas."""
        if len(self._waiting):
            self._admit_waiting(asyncio.get_running_loop().time())

    def waiting_by_replica(self) -> dict[str, int]:
        """Sequences of waiting requests by the replicas that could compute them; each request
        counts for all of its replicas."""
        waiting: dict[str, int] = {}
        for kind in self._waiting.kinds():
            for name in self._slots.quotas(kind):
                waiting[name] = waiting.get(name, 0) + self._waiting.num_sequences(kind)
        return waiting

    def _admit_or_queue(self, slot: Slot[C], now_s: float) -> asyncio.Future[None] | None:
        """Admit the request (None), queue it (the future ends its wait), or raise `Overloaded`."""
        spared = self._admit_waiting(now_s)
        if not self._waiting.has_lane(lane_of(slot.plan)):
            slot.claim = self._slots.take(slot.plan, spared)
            if slot.claim is not None:
                self.num_held += 1
                return None
        loop, kind = asyncio.get_running_loop(), slot.plan.needs.kind
        quotas = self._slots.quotas(kind)
        if self._may_get_idle_slots(slot, quotas):
            self._unjudged.add(slot)
            self._num_unjudged[kind] += 1
            slot.timer = loop.call_later(IDLE_SLOT_WAIT_S, self._judge_late, slot)
        else:
            reason = self._judge(slot, quotas, self.num_waiting, slot.time_left_s, now_s)
            if reason is not None:
                raise self._refusal(reason, kind, quotas, now_s)
            wait_s = self._forecast(kind).longest_wait_s(slot.time_left_s)
            slot.timer = loop.call_later(wait_s, self._expire, slot)
        slot.granted = loop.create_future()
        slot.arrival = self._num_arrived
        self._num_arrived += 1
        self._waiting.add(slot)
        self._queue_changed(1, kind, quotas, now_s)
        if self._recheck_timer is None:
            self._recheck_timer = loop.call_later(_RECHECK_S, self._recheck_again)
        return slot.granted

    def _may_get_idle_slots(self, slot: Slot[C], quotas: Quotas) -> bool:
        """Whether other processes leave enough slots idle for this request."""
        num_reachable = sum(quota.num_reachable for quota in quotas.values())
        if not num_reachable:
            return False
        num_wanted = sum(quota.num_held for quota in quotas.values())
        num_wanted += sum(map(self._waiting.num_sequences, self._waiting.kinds()))
        return num_wanted + slot.plan.cost.num_sequences <= num_reachable

    def _judge(
        self, slot: Slot[C], quotas: Quotas, num_ahead: int, time_left_s: float, now_s: float
    ) -> RefusalReason | None:
        """The reason to refuse the request; `num_ahead` requests wait before it here."""
        before = None if slot.granted is None else slot.arrival
        return self._forecast(slot.plan.needs.kind).judge(
            self._position(slot, quotas, before),
            _num_slots(quotas),
            time_left_s,
            now_s,
            num_ahead=num_ahead,
            num_waiting_elsewhere=self._num_waiting_elsewhere(),
        )

    def _position(self, slot: Slot[C], quotas: Quotas, before: int | None) -> float:
        """How many of its replicas' slots must become free until the request has its slots.

        The sequences of each lane spread over the slots of their own replicas. The request waits
        for the replica with the fewest sequences per slot.
        """
        sequences_per_slot = dict.fromkeys(quotas, 0.0)
        for kind in self._waiting.kinds():
            num_sequences = self._waiting.num_sequences(kind, before)
            theirs = quotas if kind == slot.plan.needs.kind else self._slots.quotas(kind)
            num_slots = _num_slots(theirs)
            for name in theirs.keys() & quotas.keys():
                sequences_per_slot[name] += num_sequences / num_slots
        least = min(sequences_per_slot.values(), default=0.0)
        return least * _num_slots(quotas) + slot.plan.cost.num_sequences

    def _judge_late(self, slot: Slot[C]) -> None:
        """Judge a request that got no idle slots of other processes."""
        loop, kind = asyncio.get_running_loop(), slot.plan.needs.kind
        now_s, quotas = loop.time(), self._slots.quotas(kind)
        num_ahead = self._waiting.num_before(slot.arrival)
        time_left_s = slot.time_left_s - IDLE_SLOT_WAIT_S
        reason = self._judge(slot, quotas, num_ahead, time_left_s, now_s)
        if reason is not None:
            self._refuse_waiting(slot, reason, quotas, now_s)
            return
        self._forget_unjudged(slot)
        wait_s = self._forecast(kind).longest_wait_s(slot.time_left_s) - IDLE_SLOT_WAIT_S
        slot.timer = loop.call_later(wait_s, self._expire, slot)
        self._queue_changed(0, kind, quotas, now_s)

    def _admit_waiting(self, now_s: float) -> set[str]:
        """Give slots to waiting requests, oldest first; returns the replicas that are spared."""
        spared: set[str] = set()
        blocked: set[Lane] = set()
        while (slot := self._waiting.oldest(blocked)) is not None:
            assert slot.granted is not None
            if not slot.granted.done():  # a cancelled one is still listed until its task runs
                slot.claim = self._slots.take(slot.plan, spared)
                if slot.claim is None:
                    blocked.add(lane_of(slot.plan))
                    spared.update(self._spared_for(slot.plan, spared))
                    continue
                self.num_held += 1
                slot.granted.set_result(None)
            self._leave_queue(slot, now_s)
        return spared

    def _spared_for(self, plan: RequestPlan, spared: set[str]) -> list[str]:
        """The replica, if any, that a waiting request is likely to get first."""
        quotas = self._slots.quotas(plan.needs.kind)
        left = [
            name
            for name, quota in quotas.items()
            if name not in spared and quota.num_slots >= plan.cost.num_sequences
        ]
        return [max(left, key=lambda name: quotas[name].num_free)] if left else []

    def _expire(self, slot: Slot[C]) -> None:
        """Refuse a request whose wait has run out."""
        quotas = self._slots.quotas(slot.plan.needs.kind)
        reason = RefusalReason.WAITED_TOO_LONG if quotas else RefusalReason.NO_REPLICA
        self._refuse_waiting(slot, reason, quotas, asyncio.get_running_loop().time())

    def _refuse_waiting(
        self, slot: Slot[C], reason: RefusalReason, quotas: Quotas, now_s: float
    ) -> None:
        assert slot.granted is not None
        self._leave_queue(slot, now_s)
        if not slot.granted.done():
            refusal = self._refusal(reason, slot.plan.needs.kind, quotas, now_s)
            slot.granted.set_exception(refusal)

    def _withdraw(self, slot: Slot[C], now_s: float) -> None:
        """Remove a request that was cancelled while it waited, or just as its wait ended."""
        if slot in self._waiting:
            self._leave_queue(slot, now_s)
        elif slot.claim is not None:
            self._release(slot.claim, now_s)
        elif slot.granted is not None and not slot.granted.cancelled():
            slot.granted.exception()  # else asyncio logs that it was never retrieved

    def _release(self, claim: C, now_s: float) -> None:
        claim.withdraw()
        self.num_held -= 1
        self._admit_waiting(now_s)

    def _ended(self, slot: Slot[C], held_s: float, now_s: float) -> None:
        assert slot.claim is not None
        name, kind = slot.claim.replica.name, slot.plan.needs.kind
        self._forecast(kind)
        for other, forecast in self._forecasts.items():
            if other == kind or name in self._slots.quotas(other):
                forecast.slots_ended(held_s, now_s, slot.plan.cost.num_sequences)
        self._release(slot.claim, now_s)

    def _leave_queue(self, slot: Slot[C], now_s: float) -> None:
        slot.timer.cancel()
        self._waiting.remove(slot)
        self._forget_unjudged(slot)
        kind = slot.plan.needs.kind
        self._queue_changed(-1, kind, self._slots.quotas(kind), now_s)
        if not len(self._waiting) and self._recheck_timer is not None:
            self._recheck_timer.cancel()
            self._recheck_timer = None

    def _forget_unjudged(self, slot: Slot[C]) -> None:
        if slot in self._unjudged:
            self._unjudged.remove(slot)
            kind = slot.plan.needs.kind
            self._num_unjudged[kind] -= 1
            if not self._num_unjudged[kind]:
                del self._num_unjudged[kind]  # the kinds that clients may ask for are many

    def _recheck_again(self) -> None:
        loop = asyncio.get_running_loop()
        self._recheck_timer = loop.call_later(_RECHECK_S, self._recheck_again)
        self.recheck()

    def _forecast(self, kind: NeedsKind) -> QueueForecast:
        """The forecast of this kind; a new one replaces the least recently used one, if possible of
        a kind that has no waiting requests."""
        forecast = self._forecasts.pop(kind, None)
        if forecast is None:
            forecast = QueueForecast(self._settings)
            if len(self._forecasts) == _MAX_FORECASTS:
                idle = (one for one in self._forecasts if not self._waiting.num_requests(one))
                del self._forecasts[next(idle, next(iter(self._forecasts)))]
        self._forecasts[kind] = forecast
        return forecast

    def _queue_changed(self, by: int, kind: NeedsKind, quotas: Quotas, now_s: float) -> None:
        num_waiting = self._waiting.num_requests(kind) - self._num_unjudged[kind]
        self._forecast(kind).queue_changed(num_waiting, _num_slots(quotas), now_s)
        self._observer.queue_changed(by)

    def _refusal(
        self, reason: RefusalReason, kind: NeedsKind, quotas: Quotas, now_s: float
    ) -> Overloaded:
        self._observer.admission_refused(reason)
        if reason is RefusalReason.NO_REPLICA:
            return Overloaded(reason, _NO_REPLICA_RETRY_S)
        num_waiting = self._waiting.num_sequences(kind)
        return Overloaded(
            reason, self._forecast(kind).refuse(num_waiting, _num_slots(quotas), now_s)
        )

    def __repr__(self) -> str:
        return f"AdmissionQueue(num_held={self.num_held}, num_waiting={self.num_waiting})"


class Slot(Generic[C]):
    """The right to have one request answered."""

    __slots__ = ("_began_at_s", "_queue", "arrival", "claim", "granted", "plan", "time_left_s",
                 "timer")  # fmt: skip

    arrival: int
    """Set by the queue, as is the timer."""
    timer: asyncio.TimerHandle
    _began_at_s: float

    def __init__(self, queue: AdmissionQueue[C], plan: RequestPlan, time_left_s: float) -> None:
        self._queue = queue
        self.plan = plan
        self.time_left_s = time_left_s
        self.claim: C | None = None
        """The slots of a replica, for the first attempt; None before the request is admitted."""
        self.granted: asyncio.Future[None] | None = None
        """Ends its wait; None for a request that has not waited."""

    async def __aenter__(self) -> Slot[C]:
        loop = asyncio.get_running_loop()
        granted = self._queue._admit_or_queue(self, loop.time())
        if granted is not None:
            try:
                await granted
            except asyncio.CancelledError:
                self._queue._withdraw(self, loop.time())
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
        self._queue._ended(self, now_s - self._began_at_s, now_s)


def _num_slots(quotas: Quotas) -> int:
    return sum(quota.num_slots for quota in quotas.values())
