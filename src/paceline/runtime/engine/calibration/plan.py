"""Choose which kinds of steps are measured. Values and pure functions.

A kind is a number of requests n, w draft tokens that the step verifies of each, and k tokens that
it drafts for each. The table needs, for each size n, the steps (n, 0, 0), (n, w, 0) and (n, 0, k):
its two parts are additive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_CONTEXT_TOKENS = 256
"""Chosen empirically: a short chat. The context slope covers other lengths."""
_LONG_CONTEXT_TOKENS = 2048
_LEAST_LONG_CONTEXT_RATIO = 4
"""A slope between two contexts that are closer than this is mostly noise."""
_MAX_LONG_REQUESTS = 4
_NUM_ROUNDS = 4
"""Samples of each kind for which a plan should leave time. The first is slow."""
_MEAN_TO_ONE_REQUEST = 3.0
"""Mean duration of the kinds up to 32 requests and 8 drafts, over a step that decodes one: 2.7 for
a target of 139 million parameters on two cores."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """Steps of one kind take the same time. Tokens are counted per request."""

    num_requests: int
    verified_tokens: int
    draft_length: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine can run."""

    max_requests: int
    max_draft_length: int
    max_step_tokens: int
    """Tokens that one step may compute for all requests."""
    max_request_tokens: int
    """Context limit of the target and of the drafter, the lower one."""
    num_blocks: int
    """Blocks of the KV cache that trial requests may use."""
    block_tokens: int
    allowed_lengths: tuple[int, ...] | None = None
    """Draft lengths that the governor may choose; None is every length."""
    follows_length: bool = True
    """Whether the drafter drafts as many tokens as the step says. One that does not drafts the
    maximum in every step, and its cost is a part of each."""

    @property
    def tail_tokens(self) -> int:
        """Tokens after the context that a trial step may write: one of the prompt, one answer
        token, the drafts it verifies, the token sampled after them, and the drafts it makes."""
        return 3 + 2 * self.max_draft_length

    def blocks_of(self, context_tokens: int) -> int:
        """Blocks of one trial request."""
        return -(-(context_tokens + self.tail_tokens) // self.block_tokens)

    def holds(self, num_requests: int, context_tokens: int) -> bool:
        """Whether that many trial requests of that context fit the engine, with full drafts.

        A draft model computes one token more per request than the target.
        """
        return (
            num_requests <= self.max_requests
            and context_tokens >= 1
            and context_tokens + self.tail_tokens <= self.max_request_tokens
            and num_requests * self.blocks_of(context_tokens) <= self.num_blocks
            and num_requests * (self.max_draft_length + 2) <= self.max_step_tokens
        )


@dataclass(frozen=True, slots=True)
class LongContext:
    """Where the cost of context is measured."""

    num_requests: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured in one engine."""

    sizes: tuple[int, ...]
    lengths: tuple[int, ...]
    context_tokens: int
    long: LongContext | None
    """None where no longer context fits."""
    resting_length: int
    """Draft length of a step that drafts as little as this engine can."""

    @property
    def longest(self) -> int:
        """The longest draft length that is measured."""
        return self.lengths[-1]

    def kind(self, num_requests: int, verified_tokens: int, draft_length: int) -> StepKind:
        """The kind of these sizes, at the plan's context."""
        return StepKind(
            num_requests,
            verified_tokens,
            max(draft_length, self.resting_length),
            self.context_tokens,
        )

    def kinds_of(self, num_requests: int) -> tuple[StepKind, ...]:
        """The kinds of one size, each once, beginning with the step that only decodes."""
        verifying = [self.kind(num_requests, width, 0) for width in self.lengths]
        drafting = [self.kind(num_requests, 0, length) for length in self.lengths[1:]]
        return tuple(dict.fromkeys([*verifying, *drafting]))

    @property
    def num_kinds(self) -> int:
        """Kinds of all sizes."""
        return sum(len(self.kinds_of(size)) for size in self.sizes)

    def context_kinds(self) -> tuple[tuple[StepKind, StepKind], tuple[StepKind, StepKind]]:
        """A step that only decodes and one that also drafts, at the plan's context and at the long
        one. `long` must not be None."""
        if self.long is None:
            raise ValueError("this plan has no long context")
        short, long = (
            (
                StepKind(self.long.num_requests, 0, self.resting_length, context_tokens),
                StepKind(self.long.num_requests, 0, self.longest, context_tokens),
            )
            for context_tokens in (self.context_tokens, self.long.context_tokens)
        )
        return short, long


def fit_plan(plan: Plan, *, one_request_s: float, budget_s: float) -> Plan:
    """Return the plan, or a coarser one where its rounds are expected to exceed the budget.

    `one_request_s` is a step that decodes one request. The coarser plan has every second size and
    at most four lengths. Drafts were seen to cost linearly beyond the first; the step from 0 to 1
    is another, because the sampler and the drafter then run another path.
    """
    if plan.num_kinds * _NUM_ROUNDS * one_request_s * _MEAN_TO_ONE_REQUEST <= budget_s:
        return plan
    longest = plan.longest
    middle = min(plan.lengths, key=lambda length: abs(length - longest / 2))
    return replace(
        plan,
        sizes=tuple(sorted({*plan.sizes[::2], plan.sizes[-1]})),
        lengths=tuple(sorted({*plan.lengths[:2], middle, longest})),
    )


def plan_for(limits: EngineLimits) -> Plan | None:
    """Return what to measure; None where not even one request fits the engine."""
    context = min(_CONTEXT_TOKENS, limits.max_request_tokens - limits.tail_tokens)
    sizes = tuple(n for n in _sizes(limits.max_requests) if limits.holds(n, context))
    if not sizes:
        return None
    return Plan(
        sizes=sizes,
        lengths=_lengths(limits.max_draft_length, limits.allowed_lengths),
        context_tokens=context,
        long=_long_context(limits, context),
        resting_length=0 if limits.follows_length else limits.max_draft_length,
    )


def _lengths(max_length: int, allowed: tuple[int, ...] | None) -> tuple[int, ...]:
    """0, 1, 2, 4, … and the maximum; every allowed length where only some are.

    >>> _lengths(6, None), _lengths(8, (0, 3, 8))
    ((0, 1, 2, 4, 6), (0, 3, 8))
    """
    if allowed is not None:
        return tuple(sorted({0, *allowed}))
    return tuple(sorted({0, *_powers(max_length), max_length}))


def _sizes(max_requests: int) -> tuple[int, ...]:
    """1, 2, 4, … and the maximum."""
    return tuple(sorted({*_powers(max_requests), max_requests}))


def _powers(limit: int) -> list[int]:
    return [2**exponent for exponent in range(limit.bit_length()) if 2**exponent <= limit]


def _long_context(limits: EngineLimits, context_tokens: int) -> LongContext | None:
    longest = min(_LONG_CONTEXT_TOKENS, limits.max_request_tokens - limits.tail_tokens)
    if longest < _LEAST_LONG_CONTEXT_RATIO * context_tokens:
        return None
    for num_requests in reversed(_sizes(min(_MAX_LONG_REQUESTS, limits.max_requests))):
        if limits.holds(num_requests, longest):
            return LongContext(num_requests, longest)
    return None
