"""A client that disconnects frees its replica: no request in flight, no KV cache kept."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment, together
from paceline.operations.validate.target.counters import Counters, MetricFamily
from paceline.operations.validate.target.exchange import DONE
from paceline.operations.validate.target.target import COMPLETIONS, Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Figure, Group, Judgement, Missing, Violation, passed

_NUM_STREAMS = 4
_NUM_EVENTS = 3
_MAX_TOKENS = 16_000
"""Far more than is read: an answer that is not cancelled runs for long."""
_PROMPT_CHARS = 8_000
"""Long enough to show in the gauge of most KV caches, short enough to be read by a small CPU."""
_TIMED_TOKENS = (1, 33)
"""Of two answers, whose times give the time per token."""
_NUM_TIMINGS = 3
"""Of each; the shortest counts, which other work on the machine did not prolong."""
_NUM_TIMED = _NUM_TIMINGS * len(_TIMED_TOKENS)
_MIN_KV_RISE = 0.005
"""Of the KV cache; below it the gauge is too coarse to show what one stream keeps."""
_MAX_KEPT = 0.1
"""Of the rise: one of four streams that is not freed keeps a quarter."""
_MAX_WAIT = 0.5
"""Of the time that a stream takes, before it is cancelled. That time is measured on two short
answers, and later an answer may have ended by itself."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The gauges before the streams, while they ran, and after all of them were cancelled."""

    before: Counters
    most_running: float
    """Requests in flight at once, while the streams ran."""
    most_kv_used: float
    """Fraction of the KV cache in use, while the streams ran."""
    after: Counters
    num_cancelled: int
    seconds: float
    """How long the gauges were given."""
    cancelled_s: float
    """From the first stream to the cancellation."""
    freed_s: float
    """From the first stream to the gauges `after`."""
    shortest_s: float
    """A stream that is not cancelled takes at least this long, as far as is known."""


async def _observe(deployment: Deployment) -> Cancelled:
    """Streams are cancelled once the gauges show all of them.

    A gauge that lags shows none later, so a replica that keeps its streams would pass.
    """
    if deployment.is_shared:
        raise Missing("other clients use the deployment (--shared), so its gauges show theirs too")
    target = deployment.target
    longest = target.identity.max_model_len or _MAX_TOKENS
    num_tokens = min(_MAX_TOKENS, longest // 2)
    body = {"max_tokens": num_tokens, "min_tokens": num_tokens, "temperature": 0}
    before = await target.counters()
    await _refresh_gauges(target)
    shortest_s = num_tokens * await _seconds_per_token(target)
    num_short = _num_completed(before) + _NUM_STREAMS + _NUM_TIMED
    before = await target.settle(
        lambda now: now.values.get(MetricFamily.RUNNING) == 0 and _num_completed(now) >= num_short
    )
    if before[MetricFamily.RUNNING]:
        raise Violation(
            f"{before[MetricFamily.RUNNING]:g} requests run before any was sent; if other clients "
            "use the deployment, give --shared"
        )
    start_s = time.monotonic()
    release = asyncio.Event()
    most_running = most_kv_used = 0.0

    def are_shown(now: Counters) -> bool:
        nonlocal most_running, most_kv_used
        most_running = max(most_running, now[MetricFamily.RUNNING])
        most_kv_used = max(most_kv_used, now[MetricFamily.KV_USED])
        rise = most_kv_used - before[MetricFamily.KV_USED]
        return most_running >= _NUM_STREAMS and rise >= _MIN_KV_RISE

    async def release_when_shown() -> None:
        try:
            await target.settle(are_shown)
        finally:
            release.set()

    streams = [
        target.stream(
            COMPLETIONS, max_events=_NUM_EVENTS, release=release.wait,
            prompt=render_prompt(number, longest), **body,
        )
        for number in range(_NUM_STREAMS)
    ]  # fmt: skip
    _, ended = await asyncio.gather(release_when_shown(), together(streams))
    cancelled_s = time.monotonic() - start_s
    for stream in ended:
        stream.expect_ok()
    if all(DONE in stream.events for stream in ended):
        raise Missing("the answers were complete before they could be cancelled")
    await _refresh_gauges(target)
    most_kept = before[MetricFamily.KV_USED] + _MAX_KEPT * max(
        _MIN_KV_RISE, most_kv_used - before[MetricFamily.KV_USED]
    )
    after = await target.settle(
        lambda now: now[MetricFamily.RUNNING] == 0 and now[MetricFamily.KV_USED] <= most_kept
    )
    freed_s = time.monotonic() - start_s
    return Cancelled(
        before, most_running, most_kv_used, after, len(ended), target.settle_s, cancelled_s,
        freed_s, shortest_s,
    )  # fmt: skip


async def _seconds_per_token(target: Target) -> float:
    """Of one answer alone, so at most that of several at once. 0 where that is not known."""
    few, many = [
        min([await _seconds_of(target, num_tokens) for _ in range(_NUM_TIMINGS)])
        for num_tokens in _TIMED_TOKENS
    ]
    return max(0.0, many - few) / (_TIMED_TOKENS[1] - _TIMED_TOKENS[0])


async def _seconds_of(target: Target, num_tokens: int) -> float:
    """From the request to the end of an answer with that many tokens."""
    start_s = time.monotonic()
    fields = {"max_tokens": num_tokens, "min_tokens": num_tokens, "temperature": 0}
    (await target.complete(prompt=PROMPTS[0], **fields)).expect_ok()
    return time.monotonic() - start_s


def _num_completed(counters: Counters) -> float:
    """Requests that ended with a complete answer; infinite where that is not counted."""
    return counters.values.get(MetricFamily.FINISHED, math.inf)


async def _refresh_gauges(target: Target) -> None:
    """Short requests for every replica: an engine reports its gauges when it has work."""
    asked = [target.complete(prompt=f"{n}", max_tokens=1) for n in range(_NUM_STREAMS)]
    for reply in await together(asked):
        reply.expect_ok()


def render_prompt(number: int, max_model_len: int) -> str:
    """A long text that no other number shares blocks with; at most a quarter of the context.

    >>> render_prompt(3, 60)
    '# Stream 3\\ndef '
    """
    length = min(_PROMPT_CHARS, max_model_len // 4)
    text = PROMPTS[0] * (length // len(PROMPTS[0]) + 1)
    return f"# Stream {number}\n{text}"[:length]


def judge(observed: Cancelled, tier: Tier) -> Judgement:
    """The requests in flight and the KV cache in use are what they were."""
    before, after, num = observed.before, observed.after, observed.num_cancelled
    may_have_ended = (
        f"answers of this length may end by themselves after {observed.shortest_s:.1f} s: give the "
        "deployment a longer context, or let its gauges be read more often"
    )
    if not observed.most_running:
        if observed.freed_s >= observed.shortest_s:
            raise Missing(
                f"the metrics never showed the {num} streams in flight, but {may_have_ended}"
            )
        raise Violation(f"the metrics show 0 requests in flight while {num} streams run")
    running = after[MetricFamily.RUNNING]
    if running > before[MetricFamily.RUNNING]:
        raise Violation(
            f"{running:g} requests run {observed.seconds:g} s after {num} streams were cancelled, "
            f"{before[MetricFamily.RUNNING]:g} ran before them"
        )
    rise = observed.most_kv_used - before[MetricFamily.KV_USED]
    used = after[MetricFamily.KV_USED]
    if rise >= _MIN_KV_RISE and used - before[MetricFamily.KV_USED] > _MAX_KEPT * rise:
        raise Violation(
            f"{used:.1%} of the KV cache are in use after all streams were cancelled, "
            f"{observed.most_kv_used:.1%} were while they ran and "
            f"{before[MetricFamily.KV_USED]:.1%} before them"
        )
    completed = _num_completed(after) - _num_completed(before)
    if completed > _NUM_STREAMS:  # as many short requests have refreshed the gauges
        if observed.cancelled_s > _MAX_WAIT * observed.shortest_s:
            raise Missing(
                f"{completed - _NUM_STREAMS:g} of {num} answers are complete, and they were "
                f"cancelled after {observed.cancelled_s:.1f} s, but {may_have_ended}"
            )
        raise Violation(
            f"{completed - _NUM_STREAMS:g} of {num} requests run to their end although their "
            "clients are gone: the metrics count them as complete"
        )
    if observed.freed_s >= observed.shortest_s:
        raise Missing(
            f"the streams run no more after {observed.freed_s:.1f} s, but {may_have_ended}"
        )
    if observed.most_running < num:
        raise Missing(
            f"the metrics show at most {observed.most_running:g} of {num} streams in flight, so "
            "the rest may still run"
        )
    figures: dict[str, Figure] = {"kv_used_fraction": used, "kv_rise_fraction": round(rise, 4)}
    if rise < _MIN_KV_RISE:
        return passed(
            f"{num} cancelled streams run no more; they used {rise:.2%} of the KV cache, too "
            "little to show whether it was freed",
            **figures,
        )
    return passed(f"{num} cancelled streams freed their replica and its KV cache", **figures)


CHECKS = (
    Check(
        "cancellation",
        Group.OPERATION,
        "A client that disconnects frees its replica",
        _observe,
        judge,
    ),
)
