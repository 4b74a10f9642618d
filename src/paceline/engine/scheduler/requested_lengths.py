"""The draft length that was requested of each request.

It is the length of the step that drafted for the request, limited by the request's own cap, and by
its width where the policy chose one after the step had drafted (`reported_drafts`). The step that
drafted is the last one in which the request was scheduled. With one batch at a time this
is the step before. With several batches in flight (pipeline parallelism), and for a request that
had to wait for a step, it is an older one.

A request caps its drafts through `SamplingParams.extra_args`, 0 switching speculation off:

    {"paceline": {"max_draft_length": 0}}     in-process
    {"paceline_max_draft_length": 0}          over HTTP, as `vllm_xargs`, which cannot hold objects
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse, repeat
from typing import Any

from paceline.engine.fixes.undrafted_requests import forbids_drafts

logger = logging.getLogger("vllm.paceline.scheduler")

ARGUMENTS = "paceline"
"""The key of `extra_args` with an object of arguments for Paceline."""
CAP = "max_draft_length"
"""The key of the cap in that object."""
FLAT_CAP = f"{ARGUMENTS}_{CAP}"
"""The key of `extra_args` that holds the cap directly."""

_MAX_STEPS = 16
"""Steps that are remembered: one for each batch in flight, and some for a request that waits. What
was requested of a request that waited longer counts as nothing, and it is not judged."""
_MIN_CAPS = 4096
"""Caps that are kept before those of ended requests are dropped."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What was requested of the requests of one step."""

    longest: int
    others: Mapping[str, int]
    """Requests of which fewer tokens than `longest` were requested, and perhaps others. A request
    that joins is not among them."""
    has_rested: bool
    """Whether the last step of any of these requests drafted nothing."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """The requests of each of the steps before."""

    def of(self, request_id: str) -> int:
        """Tokens requested of one of the requests; 0 for one that joins."""
        if any(request_id in ids for ids in self.steps):
            return self.others.get(request_id, self.longest)
        return 0

    def limited(self, lengths: Mapping[str, int]) -> Requested:
        """The same, with at most `lengths[request_id]` tokens of each of these requests."""
        shorter = {name: length for name, length in lengths.items() if length < self.of(name)}
        return replace(self, others={**self.others, **shorter}) if shorter else self


class RequestedLengths:
    """The recent steps and the caps of one scheduler's requests, kept in the scheduler's thread.

    While the draft length has not changed for `_MAX_STEPS` steps and no request sets a cap or has a
    width, nothing is done per request; otherwise a look-up each.
    """

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_MAX_STEPS)
        self._num_alike = 0
        """Steps of the same length and without widths, up to the last one."""
        self._caps: dict[str, int] = {}
        self._most_caps = _MIN_CAPS

    def set_cap(self, request_id: str, cap: int | None) -> None:
        """Limit the drafts of one request; None removes the limit."""
        if cap is None:
            self._caps.pop(request_id, None)
        else:
            self._caps[request_id] = cap

    def forget_ended(self, requests: Mapping[str, Any]) -> None:
        """Drop the caps of requests that are not in `requests`, once there are many."""
        caps = self._caps
        if len(caps) > self._most_caps:
            for request_id in caps.keys() - requests.keys():
                del caps[request_id]
            self._most_caps = max(_MIN_CAPS, 2 * len(caps))

    def capped(self, request_ids: Collection[str]) -> dict[str, int]:
        """The caps of those of the requests that have one. Not in the order of `request_ids`."""
        caps = self._caps
        if not caps:
            return {}
        return {request_id: caps[request_id] for request_id in caps.keys() & request_ids}

    def ceiling(self, request_ids: Collection[str], ceiling: int) -> int:
        """The most tokens that any of the requests may draft, under this ceiling."""
        capped = self.capped(request_ids)
        if not capped or len(capped) < len(request_ids):
            return ceiling
        return min(ceiling, max(capped.values()))

    def note(self, request_ids: Mapping[str, Any], length: int) -> None:
        """A step with these requests was scheduled, and drafts `length` tokens for each.

        `request_ids` must not be changed afterwards.
        """
        last = self._steps[-1] if self._steps else None
        is_alike = last is not None and last.length == length and not last.widths
        self._num_alike = self._num_alike + 1 if is_alike else 1
        self._steps.append(_Step(request_ids, length))

    def note_drafted(self, length: int, widths: Mapping[str, int]) -> None:
        """The last step drafted `length` tokens for each request, and of these at most
        `widths[request_id]` are verified. It must have all its requests in `widths`, which must not
        be changed afterwards."""
        if self._steps:
            self._steps[-1] = _Step(self._steps[-1].request_ids, length, widths)
            self._num_alike = 0

    def planned(self, request_id: str) -> int:
        """The length of the last step of a request, without its cap; 0 where there is none."""
        steps = reversed(self._steps)
        return next((step.length for step in steps if request_id in step.request_ids), 0)

    def of(self, request_ids: Mapping[str, Any]) -> Requested:
        """What was last requested of each of these requests."""
        steps = self._steps
        if self._num_alike >= len(steps):
            longest = steps[-1].length if steps else 0
            has_rested = longest == 0 and not all(
                step.request_ids.keys().isdisjoint(request_ids) for step in steps
            )
            others: dict[str, int] = {}
        else:
            longest, others, has_rested = self._compare(request_ids)
        for request_id, cap in self.capped(request_ids).items():
            others[request_id] = min(cap, others.get(request_id, longest))
        if others and len(others) == len(request_ids):
            longest = max(others.values())
        return Requested(longest, others, has_rested, tuple(step.request_ids for step in steps))

    def _compare(self, request_ids: Mapping[str, Any]) -> tuple[int, dict[str, int], bool]:
        """The fields of `Requested`, without caps, from steps of different lengths."""
        # Groups of requests by the step that drafted, the newest first. A group also names those of
        # the groups after it, which saves building a set of hundreds of requests.
        groups: list[tuple[Collection[str], _Step]] = []
        remaining: Collection[str] = request_ids
        for step in reversed(self._steps):
            if step.request_ids.keys().isdisjoint(remaining):
                continue
            groups.append((remaining, step))
            remaining = list(filterfalse(step.request_ids.__contains__, remaining))
            if not remaining:
                break
        longest = max((step.longest for _, step in groups), default=0)
        others: dict[str, int] = {}
        for names, step in groups:
            if step.widths:
                widths = map(step.widths.get, names, repeat(step.length))
                others.update(zip(names, widths, strict=True))
            elif step.length < longest:
                others.update(dict.fromkeys(names, step.length))
            elif others:
                for request_id in names:
                    others.pop(request_id, None)
        for request_id in remaining:
            others.pop(request_id, None)
        return longest, others, any(step.length == 0 for _, step in groups)


def cap_of(sampling_params: Any, *, reproducible_seeds: bool = False) -> int | None:
    """Return the most draft tokens that a request allows; None where it sets no cap.

    A request whose drafts could not be verified exactly is capped at 0; with `reproducible_seeds`,
    also one that samples with a seed. A cap that is not a whole number from 0 is logged and taken
    as 0: vLLM cannot refuse a request here, and 0 is within any cap that was meant.
    """
    if sampling_params is None:
        return None
    if forbids_drafts(sampling_params):
        return 0
    if reproducible_seeds and sampling_params.seed is not None and sampling_params.temperature > 0:
        return 0
    extra = sampling_params.extra_args
    if not extra:
        return None
    arguments = extra.get(ARGUMENTS)
    if isinstance(arguments, Mapping) and CAP in arguments:
        cap = arguments[CAP]
    elif arguments is not None:
        cap = {ARGUMENTS: arguments}  # no cap, but a request that meant one
    elif FLAT_CAP in extra:
        cap = extra[FLAT_CAP]
    else:
        return None
    if cap is None or (type(cap) is int and cap >= 0):
        return cap
    logger.warning(
        "Governor: a request's cap of the draft length is %r; it must be a whole number from 0 "
        '(off), as extra_args={"%s": {"%s": 0}}. The request is served without speculation.',
        cap,
        ARGUMENTS,
        CAP,
    )
    return 0


@dataclass(frozen=True, slots=True)
class _Step:
    """What one step was to draft, or has drafted."""

    request_ids: Mapping[str, Any]
    length: int
    widths: Mapping[str, int] = field(default_factory=dict)
    """Draft tokens of each of the requests that are verified; empty where all are."""

    @property
    def longest(self) -> int:
        """The most draft tokens of a request that are verified."""
        return max(self.widths.values(), default=self.length)
