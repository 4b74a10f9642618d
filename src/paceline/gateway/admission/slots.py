"""Who is let in now, who waits, and who is told at once to come again?

A bounded queue before the replicas of one model, first come, first served. It counts slots and
wakes waiters; who may wait is judged in `admission_forecast`. Deadlines come from `deadline`.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol

from paceline.gateway.admission.queue_forecast import QueueForecast, RefusalReason
from paceline.gateway.admission.slot_quota import (
    Demand,
    NoPeerWorkers,
    PeerWorkers,
    SlotQuota,
    all_of_them,
)
from paceline.gateway.http.errors import Problem
from paceline.gateway.replicas import Replica
from paceline.gateway.settings import AdmissionSettings

_LOOK_AGAIN_S = 0.1
"""While somebody waits the capacity is looked at so often: replicas come without a word."""
_IDLE_PLACE_S = 0.5
"""A place that another process leaves idle comes within this time, or is not idle. Chosen by hand:
it usually takes 0.1 s."""
_NO_REPLICA_RETRY_S = 5
"""Chosen by hand; the forecast knows nothing of when a replica comes back."""

_MESSAGES = {
    RefusalReason.QUEUE_FULL: "The server is overloaded: too many requests are waiting.",
    RefusalReason.WAIT_TOO_LONG: "The server is overloaded: this request would wait too long.",
    RefusalReason.DEADLINE: "The server is overloaded: this request would not be complete in its time.",
    RefusalReason.WAITED_TOO_LONG: "The server is overloaded: this request has waited too long.",
    RefusalReason.NO_REPLICA: "No engine can take a request just now.",
}


class AdmissionObserver(Protocol):
    """Transcript of the queue. Must not block or raise."""

    def queue_changed(self, by: int) -> None:
        """So many more wait; fewer, where negative."""
        ...

    def admission_refused(self, reason: RefusalReason) -> None: ...


class Overloaded(Exception):
    """The request is not let in."""

    def __init__(self, reason: RefusalReason, retry_after_s: int) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def problem(self) -> Problem:
        """A 503, as OpenAI's API answers when it is overloaded; 429 is for limits of one client."""
        code = "engine_unavailable" if self.reason is RefusalReason.NO_REPLICA else "overloaded"
        return Problem(503, _MESSAGES[self.reason], code, retry_after_s=self.retry_after_s)


def num_slots_of(replicas: Iterable[Replica], settings: AdmissionSettings) -> int:
    """Requests that the ready ones among these replicas take at a time."""
    return sum(
        settings.max_in_flight if replica.max_in_flight is None else replica.max_in_flight
        for replica in replicas
        if replica.state == "ready"
    )


def num_slots_by_model(replicas: Iterable[Replica], settings: AdmissionSettings) -> dict[str, int]:
    """The same, of all models."""
    by_model: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_model.setdefault(replica.model, []).append(replica)
    return {model: num_slots_of(group, settings) for model, group in by_model.items()}


class Admission:
    """The queue of one model. `repr` shows it.

    As many slots are held as `capacity()` allows at most, and nobody waits while one is free.
    `capacity` is called for every request that comes and goes: it must answer from memory. It may
    change at any time; when it falls, those let in keep their slots. All operations are O(1) in the
    length of the queue.

    Where other processes answer too, `part` says which part of the capacity this one may use. Who
    comes when only the part is taken waits, whatever the limits on waiting, for a place that the
    others leave idle; who has not got one after 0.5 s is judged as anybody else, once, in a time
    that grows with the queue. To the forecast these are no queue: not every slot is held.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        capacity: Callable[[], int],
        observer: AdmissionObserver,
        part: Callable[[int], SlotQuota] = all_of_them,
    ) -> None:
        self._capacity = capacity
        self._part = part
        self._observer = observer
        self._forecast = QueueForecast(settings)
        self._waiting: OrderedDict[Slot, asyncio.Future[None]] = OrderedDict()
        self._unjudged: set[Slot] = set()
        """Those among them that wait for an idle place."""
        self._look_again: asyncio.TimerHandle | None = None
        self.num_held = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def slot(self, time_left_s: float) -> Slot:
        """To be entered as an async context manager, once; held until it is left.

        `time_left_s` is how long the request may still take, its waiting included. Entering raises
        `Overloaded`: before it has suspended when the request should not wait, later when it waited
        in vain. A waiter that is cancelled leaves the queue, and passes on a slot given to it at
        the same moment.
        """
        return Slot(self, time_left_s)

    def _ask(self, slot: Slot, now_s: float) -> asyncio.Future[None] | None:
        """Let it in (None), have it wait for the result, or raise `Overloaded`."""
        places = self._places()
        self._let_in(places, now_s)
        if self.num_held < places.limit:
            self.num_held += 1
            return None
        loop = asyncio.get_running_loop()
        if self.num_held + len(self._waiting) < places.num_reachable:
            self._unjudged.add(slot)
            slot.timer = loop.call_later(_IDLE_PLACE_S, self._judge_late, slot)
        else:
            reason = self._judge(len(self._waiting) + 1, slot.time_left_s, places, now_s)
            if reason is not None:
                raise self._refusal(reason, places.num_slots, now_s)
            wait_s = self._forecast.longest_wait_s(slot.time_left_s)
            slot.timer = loop.call_later(max(wait_s, 0.0), self._expire, slot)
        granted = self._waiting[slot] = loop.create_future()
        self._queue_changed(1, places.num_slots, now_s)
        if self._look_again is None:
            self._look_again = loop.call_later(_LOOK_AGAIN_S, self._look)
        return granted

    def _judge(
        self, position: int, time_left_s: float, places: SlotQuota, now_s: float
    ) -> RefusalReason | None:
        return self._forecast.judge(
            position, places.num_slots, time_left_s, now_s, places.num_waiting_elsewhere
        )

    def _judge_late(self, slot: Slot) -> None:
        """It has got no idle place. It has come as far forward as there are slots, or further."""
        loop = asyncio.get_running_loop()
        now_s, places = loop.time(), self._places()
        position = next(place for place, one in enumerate(self._waiting, 1) if one is slot)
        reason = self._judge(position, slot.time_left_s - _IDLE_PLACE_S, places, now_s)
        if reason is not None:
            self._turn_away(slot, reason, places.num_slots, now_s)
            return
        self._unjudged.remove(slot)
        wait_s = self._forecast.longest_wait_s(slot.time_left_s) - _IDLE_PLACE_S
        slot.timer = loop.call_later(max(wait_s, 0.0), self._expire, slot)
        self._queue_changed(0, places.num_slots, now_s)

    def look_again(self) -> None:
        """The capacity or the part of it may have changed."""
        if self._waiting:
            self._let_in(self._places(), asyncio.get_running_loop().time())

    def _places(self) -> SlotQuota:
        return self._part(self._capacity())

    def _let_in(self, places: SlotQuota, now_s: float) -> None:
        """Give free slots to those who wait, first come, first served."""
        while self._waiting and self.num_held < places.limit:
            slot, granted = self._waiting.popitem(last=False)
            if not granted.done():  # cancelled, and about to find out
                self.num_held += 1
                granted.set_result(None)
            self._left_queue(slot, places.num_slots, now_s)

    def _expire(self, slot: Slot) -> None:
        """Its wait has run out."""
        now_s, num_slots = asyncio.get_running_loop().time(), self._places().num_slots
        reason = RefusalReason.WAITED_TOO_LONG if num_slots else RefusalReason.NO_REPLICA
        self._turn_away(slot, reason, num_slots, now_s)

    def _turn_away(self, slot: Slot, reason: RefusalReason, num_slots: int, now_s: float) -> None:
        """It has waited in vain."""
        granted = self._waiting.pop(slot)
        self._left_queue(slot, num_slots, now_s)
        if not granted.done():
            granted.set_exception(self._refusal(reason, num_slots, now_s))

    def _withdraw(self, slot: Slot, granted: asyncio.Future[None], now_s: float) -> None:
        """It was cancelled while it waited, or in the moment in which it was told."""
        if slot in self._waiting:
            del self._waiting[slot]
            self._left_queue(slot, self._places().num_slots, now_s)
        elif not granted.cancelled() and granted.exception() is None:
            self._release(now_s)

    def _release(self, now_s: float) -> None:
        self.num_held -= 1
        self._let_in(self._places(), now_s)

    def _ended(self, held_s: float, now_s: float) -> None:
        self._forecast.slot_ended(held_s, now_s)
        self._release(now_s)

    def _left_queue(self, slot: Slot, num_slots: int, now_s: float) -> None:
        assert slot.timer is not None
        slot.timer.cancel()
        self._unjudged.discard(slot)
        self._queue_changed(-1, num_slots, now_s)
        if not self._waiting and self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_again = loop.call_later(_LOOK_AGAIN_S, self._look)
        self.look_again()

    def _queue_changed(self, by: int, num_slots: int, now_s: float) -> None:
        self._forecast.queue_is(len(self._waiting) - len(self._unjudged), num_slots, now_s)
        self._observer.queue_changed(by)

    def _refusal(self, reason: RefusalReason, num_slots: int, now_s: float) -> Overloaded:
        self._observer.admission_refused(reason)
        if reason is RefusalReason.NO_REPLICA:
            return Overloaded(reason, _NO_REPLICA_RETRY_S)
        return Overloaded(reason, self._forecast.refuse(len(self._waiting), num_slots, now_s))

    def __repr__(self) -> str:
        return f"Admission(num_held={self.num_held}, num_waiting={self.num_waiting})"


class Slot:
    """The right to have one request answered."""

    __slots__ = ("_admission", "_began_at_s", "time_left_s", "timer")

    def __init__(self, admission: Admission, time_left_s: float) -> None:
        self._admission = admission
        self._began_at_s = 0.0
        self.time_left_s = time_left_s
        self.timer: asyncio.TimerHandle | None = None
        """Ends its wait; set by the queue."""

    async def __aenter__(self) -> Slot:
        loop = asyncio.get_running_loop()
        granted = self._admission._ask(self, loop.time())
        if granted is not None:
            try:
                await granted
            except asyncio.CancelledError:
                self._admission._withdraw(self, granted, loop.time())
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
        self._admission._ended(now_s - self._began_at_s, now_s)


class Admissions:
    """One queue per model, so that none waits for another one's engines."""

    def __init__(
        self,
        settings: AdmissionSettings,
        capacity: Callable[[str], int],
        observer: AdmissionObserver,
        peers: PeerWorkers | None = None,
    ) -> None:
        self._settings = settings
        self._capacity = capacity
        self._observer = observer
        self._peers = peers or NoPeerWorkers()
        self._admissions: dict[str, Admission] = {}

    def of(self, model: str) -> Admission:
        """The queue of a model that is served; it must not be a name that a client made up."""
        admission = self._admissions.get(model)
        if admission is None:
            for name, other in list(self._admissions.items()):
                if not other.num_held and not other.num_waiting and not self._capacity(name):
                    del self._admissions[name]
            admission = self._admissions[model] = Admission(
                self._settings,
                lambda: self._capacity(model),
                self._observer,
                functools.partial(self._peers.places, model),
            )
        return admission

    def demands(self) -> dict[str, Demand]:
        """What is held and waited for here, of the models of which anything is."""
        return {
            model: Demand(one.num_held, one.num_waiting)
            for model, one in self._admissions.items()
            if one.num_held or one.num_waiting
        }

    def look_again(self) -> None:
        """What the peers hold has changed."""
        for admission in self._admissions.values():
            admission.look_again()
