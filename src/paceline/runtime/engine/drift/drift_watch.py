"""`DriftWatch`: follow requests, watch the acceptance of each category, and report shifts.

It lives as long as the engine, so an engine with a new draft model starts without references.

At most `MAX_FOLLOWED` requests are followed at a time, so that the cost of a step is bounded; with
more, every request that begins to draft takes the next free place. The verdicts on drafts are
watched: while nothing is drafted, nothing is seen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

from paceline.foundation.recording.records import MAX_CATEGORIES, OTHER
from paceline.runtime.engine.drift.category_watch import AcceptanceShift, CategoryWatch
from paceline.runtime.engine.drift.half_hours import NUM_KEPT, HalfHours
from paceline.runtime.engine.drift.lost_rate import CostCurve, LostRate, lost_fraction, lost_rate
from paceline.runtime.engine.drift.text_acceptance import RequestVerdicts
from paceline.runtime.governor.values import StepSample

logger = logging.getLogger("vllm.paceline.drift")

MAX_FOLLOWED = 64
MAX_EVENTS = 32
"""Events that are kept; older ones are in the log."""
_SHARE_REQUESTS = 256
"""Ended requests over which a category's share of the work is measured."""
_STEP_KEEP = 0.95
"""Weight kept per step in the measured time of a step; a memory of about 20 steps."""
_IDLE_S = 600.0
"""After so long without a request, a fall costs nothing."""


class DriftWatch:
    """The watch of one engine. `state` may be called from any thread; the other methods belong to
    the scheduler's."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds since 1970, for the events; `monotonic` measures half hours."""
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._followed: dict[str, tuple[str, RequestVerdicts]] = {}
        """Category and verdicts by request id."""
        self._categories: dict[str, CategoryWatch] = {}
        self._half_hours: dict[str, HalfHours] = {}
        self._lost: dict[str, tuple[float | None, int]] = {}
        """Tokens/s that the last shift costs, and the half hours that had ended when it came."""
        self._seconds: dict[int, float] = {}
        """The time of a step by draft length, when the last request ended."""
        self._work = deque[tuple[str, int, float]](maxlen=_SHARE_REQUESTS)
        """Category, verdicts and tokens of ended requests."""
        self._step_s: dict[int, float] = {}
        self._events = deque[dict[str, Any]](maxlen=MAX_EVENTS)
        self._num_events = 0

    def step_finished(
        self,
        sample: StepSample,
        requests: Mapping[str, Any],
        category_of: Callable[[Any], str],
        step_seconds: Callable[[], Sequence[float]],
    ) -> None:
        """Add a finished step.

        `requests`: those that have not ended, by id; `category_of` gives the category of one.
        `step_seconds`: the policy's expected time of a step by draft length from 0 on; empty where
        it has none, and the measured times are used.
        """
        self._measure_step(sample)
        if not sample.judged and not sample.num_ended:
            return
        with self._lock:
            asked = sample.requested or repeat(sample.requested_draft_length)
            self._add(sample.judged, asked, sample.accepted, requests, category_of)
            if sample.num_ended:
                for request_id in [name for name in self._followed if name not in requests]:
                    self._end(request_id, sample, step_seconds)

    def state(self) -> dict[str, Any]:
        """The categories and the last events, for the control channel."""
        with self._lock:
            return {
                "categories": {
                    name: self._describe(name, watch) for name, watch in self._categories.items()
                },
                "events": list(self._events),
            }

    def _add(
        self,
        judged: Sequence[str],
        asked: Any,
        accepted: Sequence[int],
        requests: Mapping[str, Any],
        category_of: Callable[[Any], str],
    ) -> None:
        followed = self._followed
        for request_id, requested, num_accepted in zip(judged, asked, accepted, strict=False):
            known = followed.get(request_id)
            if known is None:
                if len(followed) >= MAX_FOLLOWED or request_id not in requests:
                    continue
                category = self._bounded(category_of(requests[request_id]))
                known = followed[request_id] = (category, RequestVerdicts())
            known[1].add(requested, num_accepted)

    def _bounded(self, category: str) -> str:
        if category in self._categories:
            return category
        if len(self._categories) >= MAX_CATEGORIES - 1:
            category = OTHER
        self._categories.setdefault(category, CategoryWatch())
        self._half_hours.setdefault(category, HalfHours())
        return category

    def _end(
        self, request_id: str, sample: StepSample, step_seconds: Callable[[], Sequence[float]]
    ) -> None:
        category, verdicts = self._followed.pop(request_id)
        sums = verdicts.sums()
        self._work.append((category, sums.num_verdicts, sums.weight))
        self._seconds = dict(enumerate(step_seconds())) or dict(self._step_s)
        watch = self._categories[category]
        shift = watch.add(sums)
        if watch.completed is not None:
            self._half_hours[category].add(watch.completed, self._monotonic())
        if shift is not None:
            num_decoding = max(sample.num_requests - sample.num_prefilling, 1)
            lost = None
            if self._seconds:
                curve = CostCurve(num_decoding, self._seconds)
                lost = lost_rate(shift, curve, self._share(category))
            self._report(category, shift, lost, num_decoding)

    def _share(self, category: str) -> float:
        """Of the steps."""
        total = sum(num for _, num, _ in self._work)
        return sum(num for name, num, _ in self._work if name == category) / max(total, 1)

    def _token_share(self, category: str) -> float:
        total = sum(tokens for *_, tokens in self._work)
        return sum(tokens for name, _, tokens in self._work if name == category) / max(total, 1.0)

    def _measure_step(self, sample: StepSample) -> None:
        """Average the time of clean decode steps by draft length."""
        if sample.is_clean and sample.duration_s and not sample.prefill_tokens:
            before_s = self._step_s.get(sample.draft_length, sample.duration_s)
            self._step_s[sample.draft_length] = (
                _STEP_KEEP * before_s + (1.0 - _STEP_KEEP) * sample.duration_s
            )

    def _report(
        self, category: str, shift: AcceptanceShift, lost: LostRate | None, num_decoding: int
    ) -> None:
        self._num_events += 1
        num_ended = self._half_hours[category].num_ended
        self._lost[category] = None if lost is None else lost.value, num_ended
        event = describe_event(category, shift, lost, num_decoding)
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        self._events.append({"number": self._num_events, "at": at, **event})
        logger.warning("Drift: %s", describe_shift(category, shift, lost, num_decoding))

    def _describe(self, name: str, watch: CategoryWatch) -> dict[str, Any]:
        reference, half_hours = watch.reference, self._half_hours[name]
        lost, num_ended = self._lost.get(name, (0.0, 0))
        if half_hours.num_ended >= num_ended + NUM_KEPT:
            lost = 0.0
        fall = half_hours.fall
        return {
            "requests": watch.num_requests,
            "acceptance": watch.recent,
            "reference_acceptance": None if reference is None else reference.mean,
            "evidence_fraction": None if watch.evidence is None else min(watch.evidence, 1.0),
            "events_total": watch.num_shifts,
            "lost_tokens_per_s": lost,
            "lasting_lost_fraction": self._lasting_lost(name, fall),
            "acceptance_best_level": None if fall is None else fall.before.mean,
            "acceptance_last_half_hour": None if fall is None else fall.now.mean,
        }

    def _lasting_lost(self, name: str, fall: AcceptanceShift | None) -> float:
        idle_s = self._half_hours[name].seconds_since(self._monotonic())
        if fall is None or not self._seconds or idle_s > _IDLE_S:
            return 0.0
        return lost_fraction(fall, self._seconds, self._token_share(name))


def describe_event(
    category: str, shift: AcceptanceShift, lost: LostRate | None, num_decoding: int
) -> dict[str, Any]:
    """The event of a shift, without its number and time."""
    return {
        "category": category,
        "acceptance_before": round(shift.before.mean, 4),
        "acceptance_now": round(shift.now.mean, 4),
        "requests_before": shift.before.num_requests,
        "requests_now": shift.now.num_requests,
        "requests_decoding": num_decoding,
        "lost_tokens_per_s": None if lost is None else round(lost.value, 3),
        "lost_tokens_per_s_low": None if lost is None else round(lost.low, 3),
        "lost_tokens_per_s_high": None if lost is None else round(lost.high, 3),
        "tokens_per_step_before": None if lost is None else round(lost.tokens_before, 3),
        "tokens_per_step_now": None if lost is None else round(lost.tokens_now, 3),
    }


def describe_shift(
    category: str, shift: AcceptanceShift, lost: LostRate | None, num_decoding: int
) -> str:
    """The line of the log."""
    fell = shift.now.mean < shift.before.mean
    text = (
        f"the acceptance of category {category} {'fell' if fell else 'rose'} from "
        f"{shift.before.mean:.2f} to {shift.now.mean:.2f} (the last {shift.now.num_requests} "
        f"requests against {shift.before.num_requests} before)"
    )
    if lost is None:
        return f"{text}; no step time is known to say what it costs"
    sign = 1.0 if lost.value >= 0.0 else -1.0
    low, high = sorted((sign * lost.low, sign * lost.high))
    return (
        f"{text}; with {num_decoding} requests at a time it {'costs' if sign > 0.0 else 'gains'} "
        f"{sign * lost.value:.1f} tokens/s ({low:.1f} to {high:.1f}): the best draft length yields "
        f"{lost.tokens_now:.2f} tokens per step instead of {lost.tokens_before:.2f}"
    )
