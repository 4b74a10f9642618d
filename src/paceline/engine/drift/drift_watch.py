"""`DriftWatch`: follow requests, watch the acceptance of each category, and report shifts.

It lives as long as the engine, so an engine with a new draft model starts without references.

At most `MAX_FOLLOWED` requests are followed at a time, so that the cost of a step is bounded; with
more, every request that begins to draft takes the next free place. What is watched: the verdicts on
drafts, and those of replay scoring at draft length 0. While nothing is drafted and nothing is
replayed, nothing is seen.

The time of a level is that of the engine's steps: a pause counts up to `_MOST_PAUSE_S`.
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

from paceline.engine.drift.category_watch import AcceptanceShift, CategoryWatch
from paceline.engine.drift.level_history import LevelHistory
from paceline.engine.drift.lost_rate import CostCurve, LostRate, lost_rate
from paceline.engine.drift.text_acceptance import RequestVerdicts
from paceline.governor.values import StepSample
from paceline.recording.records import MAX_CATEGORIES, OTHER

logger = logging.getLogger("vllm.paceline.drift")

MAX_FOLLOWED = 64
MAX_EVENTS = 32
"""Events that are kept; older ones are in the log."""
_REPLAY_LENGTH = 2
"""Replayed drafts begin where drafts of this length would have begun."""
_SHARE_REQUESTS = 256
"""Ended requests over which a category's share of the work is measured."""
_STEP_KEEP = 0.95
"""Weight kept per step in the measured time of a step; a memory of about 20 steps."""
_MOST_PAUSE_S = 60.0
"""A longer pause counts as this: an idle night is no evidence of a level."""
_IDLE_S = 600.0
"""After so long without a step, a shift costs nothing."""


class DriftWatch:
    """The watch of one engine. `state` may be called from any thread; the other methods belong to
    the scheduler's."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds since 1970, for the events; `monotonic` measures how long levels
        last."""
        self._clock = clock
        self._monotonic = monotonic
        self._stepped_at_s = monotonic()
        self._busy_s = 0.0
        self._lock = threading.Lock()
        self._followed: dict[str, tuple[str, RequestVerdicts]] = {}
        """Category and verdicts by request id."""
        self._categories: dict[str, CategoryWatch] = {}
        self._lost: dict[str, float | None] = {}
        self._levels: dict[str, LevelHistory] = {}
        self._lasting_lost: dict[str, float | None] = {}
        """Tokens/s of the present level against the last one that lasted, if all work were of the
        category; at the load when the shift was found."""
        self._work = deque[tuple[str, int]](maxlen=_SHARE_REQUESTS)
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
        now_s = self._monotonic()
        self._busy_s += min(now_s - self._stepped_at_s, _MOST_PAUSE_S)
        self._stepped_at_s = now_s
        if not sample.judged and sample.replay_scores is None and not sample.num_ended:
            return
        with self._lock:
            asked = sample.requested or repeat(sample.requested_draft_length)
            self._add(sample.judged, asked, sample.accepted, requests, category_of)
            scores = sample.replay_scores
            if scores is not None and scores.judged and sample.draft_length == 0:
                lengths = (min(drafted, _REPLAY_LENGTH) for drafted in scores.drafted)
                self._add(scores.judged, lengths, scores.accepted, requests, category_of)
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
        if category not in self._categories:
            self._categories[category] = CategoryWatch()
            self._levels[category] = LevelHistory(self._busy_s)
        return category

    def _end(
        self, request_id: str, sample: StepSample, step_seconds: Callable[[], Sequence[float]]
    ) -> None:
        category, verdicts = self._followed.pop(request_id)
        sums = verdicts.sums()
        self._work.append((category, sums.num_verdicts))
        shift = self._categories[category].add(sums)
        if shift is not None:
            seconds = dict(enumerate(step_seconds())) or self._step_s
            num_decoding = max(sample.num_requests - sample.num_prefilling, 1)
            curve = CostCurve(num_decoding, seconds) if seconds else None
            lost = None if curve is None else lost_rate(shift, curve, self._share(category))
            self._report(category, shift, lost, num_decoding)
            self._compare_with_lasting(category, shift, curve)

    def _compare_with_lasting(
        self, category: str, shift: AcceptanceShift, curve: CostCurve | None
    ) -> None:
        levels = self._levels[category]
        levels.shifted(self._busy_s, shift.before, shift.now)
        lost: float | None = 0.0
        if levels.before is not None:
            lasting = AcceptanceShift(levels.before, shift.now)
            lost = None if curve is None else lost_rate(lasting, curve, 1.0).value
        self._lasting_lost[category] = lost

    def _share(self, category: str) -> float:
        total = sum(num for _, num in self._work)
        return sum(num for name, num in self._work if name == category) / max(total, 1)

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
        self._lost[category] = None if lost is None else lost.value
        event = describe_event(category, shift, lost, num_decoding)
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        self._events.append({"number": self._num_events, "at": at, **event})
        logger.warning("Drift: %s", describe_shift(category, shift, lost, num_decoding))

    def _describe(self, name: str, watch: CategoryWatch) -> dict[str, Any]:
        reference, levels = watch.reference, self._levels[name]
        is_lasting = levels.lasts(self._busy_s)
        lasting_lost = self._lasting_lost.get(name, 0.0)
        if not is_lasting or self._monotonic() - self._stepped_at_s > _IDLE_S:
            lasting_lost = 0.0
        return {
            "requests": watch.num_requests,
            "acceptance": watch.recent,
            "reference_acceptance": None if reference is None else reference.mean,
            "evidence_fraction": None if watch.evidence is None else min(watch.evidence, 1.0),
            "events_total": watch.num_shifts,
            "lost_tokens_per_s": self._lost.get(name, 0.0),
            "lasting_lost_tokens_per_s": (
                None if lasting_lost is None else lasting_lost * self._share(name)
            ),
            "acceptance_before_lasting": (
                levels.before.mean if is_lasting and levels.before is not None else None
            ),
        }


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
