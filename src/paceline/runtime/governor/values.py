"""The governor's input and output values: one step, the load, one plan and its rule.

All values are frozen and validate themselves. Nothing here knows vLLM.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import gt


@dataclass(frozen=True, slots=True)
class StepSample:
    """One finished engine step.

    `drafted` and `accepted` have shape (num_judged,): one entry for each decoding request whose
    outcome says something about the drafter, including requests for which the drafter offered
    nothing (0 drafted). Left out are drafts cut short by a stop or by max_tokens, and drafts of
    requests that were preempted or may not be speculated; their tokens still count in
    `verified_draft_tokens`, because they take time.
    """

    num_requests: int
    """Requests that were given tokens in this step, prefills included."""
    requested_draft_length: int
    """Draft length that was requested for the drafts judged here; where requests differ (see
    `requested`), the longest."""
    drafted: tuple[int, ...]
    """Draft tokens verified per request, (num_judged,)."""
    accepted: tuple[int, ...]
    """Draft tokens accepted by the target, (num_judged,); never more than drafted."""
    verified_draft_tokens: int
    """All draft tokens the target computed in this step; at least the sum of `drafted`."""
    draft_length: int
    """Tokens proposed per request at the end of this step (for the next verification)."""
    prefill_tokens: int
    """Prompt tokens computed in this step beyond one per request."""
    context_tokens: int
    """Sum over the requests of tokens already in their KV cache."""
    duration_s: float | None
    """Time from the step's start to its results; None when it was not measured."""
    is_clean: bool
    """True when the duration is that of the step's own work: back to back with the step before, no
    catching up. Fit cost on these; they may hold prefills."""
    catches_up: bool = False
    """True when the drafter first computed the tokens that it had missed at draft length 0."""
    judged: tuple[str, ...] = ()
    """Ids of the judged requests, (num_judged,); empty where the engine does not report them."""
    requested: tuple[int, ...] = ()
    """Draft tokens requested of each judged request, (num_judged,), where they differ; empty where
    `requested_draft_length` was requested of all. They differ where requests cap their drafts, and
    where the drafts were made in different steps."""
    classes: tuple[str, ...] = ()
    """Class of each judged request, (num_judged,), such as "greedy": how it samples and what binds
    its answer. Empty where the engine does not report them."""
    confidences: tuple[tuple[float, ...], ...] = ()
    """The draft model's confidence in each verified draft token of each judged request, as
    (num_judged,) tuples of `drafted` entries: the largest probability of the distribution that the
    token was drawn from. Empty where the engine does not report them."""
    num_ended: int = 0
    """Requests whose answer ended in this step."""
    num_prefilling: int = 0
    """Requests that computed a part of their prompt and not its end: they yield no token."""

    def __post_init__(self) -> None:
        num_judged = len(self.drafted)
        if len(self.accepted) != num_judged:
            raise ValueError(
                f"drafted has {num_judged} entries, accepted {len(self.accepted)}; "
                "both need one per judged request"
            )
        if any(map(gt, self.accepted, self.drafted)) or min(self.accepted, default=0) < 0:
            raise ValueError(
                f"accepted is {self.accepted}; each entry must be 0 to its entry in drafted, "
                f"{self.drafted}"
            )
        for name in (
            "num_requests",
            "requested_draft_length",
            "draft_length",
            "num_ended",
            "prefill_tokens",
            "context_tokens",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.num_prefilling <= self.num_requests:
            raise ValueError(
                f"num_prefilling is {self.num_prefilling}; it must be from 0 to num_requests, "
                f"{self.num_requests}"
            )
        if self.verified_draft_tokens < sum(self.drafted):
            raise ValueError(
                f"verified_draft_tokens is {self.verified_draft_tokens}; "
                f"it must be at least the sum of drafted, {sum(self.drafted)}"
            )
        for name in ("judged", "requested", "classes"):
            num_entries = len(getattr(self, name))
            if num_entries not in (0, num_judged):
                raise ValueError(
                    f"{name} has {num_entries} entries, drafted {num_judged}; "
                    "it needs one per judged request, or none at all"
                )
        if self.confidences and tuple(map(len, self.confidences)) != self.drafted:
            raise ValueError(
                "confidences needs one entry for each token of drafted, or none at all"
            )
        if self.duration_s is not None and not self.duration_s >= 0:
            raise ValueError(f"duration_s is {self.duration_s}; it must not be negative")

    @property
    def verified_tokens(self) -> int:
        """Tokens the target computed for decoding: one per request and its draft tokens."""
        return self.num_requests + self.verified_draft_tokens


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The work of the next step, as the scheduler knows it when it requests the plan."""

    num_requests: int
    context_tokens: int
    """Sum over the requests of tokens already in their KV cache."""
    prefill_tokens: int
    num_waiting: int
    max_draft_length: int
    """The ceiling in force now: the engine's, or a lower one set by an operator."""
    allowed_lengths: tuple[int, ...] | None = None
    """The only lengths that the engine runs at full speed, ascending, 0 first: on GPUs those with
    CUDA graphs. None allows every length. Those above the ceiling are not allowed either."""
    num_prefilling: int = 0
    """Requests that compute a part of their prompt and not its end: they yield no token, and
    nothing is drafted for them."""
    num_undrafted: int = 0
    """Requests that yield a token and take no drafts, because their cap is 0."""
    reports_confidences: bool = False
    """Whether the engine reports confidences before it verifies, ends drafting by `DraftPlan.rule`,
    and lets the policy choose how many drafts of each request are verified (`ChoosesWidths`)."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Number of requests that take drafts by class (see `StepSample.classes`); empty where the
    engine does not report them."""

    @property
    def num_decoding(self) -> int:
        """Requests that yield a token in this step."""
        return self.num_requests - self.num_prefilling

    @property
    def num_drafting(self) -> int:
        """Requests that the plan's drafts are for."""
        return self.num_decoding - self.num_undrafted

    def longest_allowed(self, draft_length: int) -> int:
        """The longest allowed length up to `draft_length` and the ceiling.

        >>> load = EngineLoad(4, 900, 0, 0, max_draft_length=8, allowed_lengths=(0, 1, 3, 7))
        >>> load.longest_allowed(8), load.longest_allowed(2), load.longest_allowed(0)
        (7, 1, 0)
        """
        return longest_allowed(
            min(draft_length, self.max_draft_length), allowed=self.allowed_lengths
        )

    def next_allowed(self, draft_length: int) -> int | None:
        """The shortest allowed length above `draft_length`; None if there is none."""
        if self.allowed_lengths is None:
            longer = draft_length + 1
            return longer if longer <= self.max_draft_length else None
        above = (length for length in self.allowed_lengths if length > draft_length)
        found = next(above, None)
        return None if found is None or found > self.max_draft_length else found

    def allowed_below(self, count: int) -> Sequence[int]:
        """The allowed lengths from 0 to `count` - 1, ascending; the ceiling is not considered."""
        if self.allowed_lengths is None:
            return range(count)
        return self.allowed_lengths[: bisect_left(self.allowed_lengths, count)]


def longest_allowed(draft_length: int, *, allowed: tuple[int, ...] | None) -> int:
    """The longest length of `allowed` that is at most `draft_length`; itself where all are."""
    if allowed is None:
        return draft_length
    return allowed[bisect_right(allowed, draft_length) - 1]


@dataclass(frozen=True, slots=True)
class DraftRule:
    """When drafting ends, and which drafts are verified: a token is, if its chance of being reached
    and accepted is worth its time.

    Fixed before a step drafts, and sent to the workers with it (see `drafting.drafting_round`).
    """

    maps: Mapping[str, tuple[float, float]]
    """Intercept and slope of the map from confidence to acceptance, by class of request (see
    `acceptance.confidence_map`)."""
    least_survival: float
    """The chance that a token must have to be verified: the price, in tokens, of verifying it."""
    pass_tokens: tuple[float, ...]
    """Tokens that are worth the time of the second, third, … pass of the draft model, shape
    (max_draft_length - 1,)."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.least_survival < math.inf:
            raise ValueError(
                f"least_survival is {self.least_survival}; it must be finite and not negative"
            )


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """The draft length for the next proposal, with the reason."""

    draft_length: int
    reason: str
    is_exploring: bool = False
    """True when the length is not the one believed best, but shows what a draft would do."""
    expected_tokens_per_s: float | None = None
    """The policy's expectation for this length; None where it has none."""
    rule: DraftRule | None = None
    """How drafting ends before `draft_length`; None for never."""

    def __post_init__(self) -> None:
        if type(self.draft_length) is not int or self.draft_length < 0:
            raise ValueError(
                f"draft_length is {self.draft_length!r}; it must be a whole number, 0 (off) or more"
            )
        if not isinstance(self.reason, str):
            raise TypeError(f"reason is {self.reason!r}; it must be a text")
        if not isinstance(self.expected_tokens_per_s, float | int | None):
            raise TypeError(
                f"expected_tokens_per_s is {self.expected_tokens_per_s!r}; it must be a number, or "
                "None"
            )
        if not isinstance(self.rule, DraftRule | None):
            raise TypeError(f"rule is {self.rule!r}; it must be a DraftRule, or None")


def check_widths(widths: Sequence[int], shape: tuple[int, ...]) -> None:
    """Raise ValueError unless there is one width, a whole number from 0 to the drafted tokens, per
    request; `shape` is (num_requests, num_passes)."""
    num_requests, num_passes = shape
    if len(widths) != num_requests:
        raise ValueError(f"the policy chose {len(widths)} widths for {num_requests} requests")
    if not all(type(width) is int and 0 <= width <= num_passes for width in widths):
        raise ValueError(
            f"the policy chose the widths {widths!r}; each must be a whole number from 0 to "
            f"{num_passes}"
        )
