"""Decide which tokens a replay scoring pass computes, and derive draft outcomes from it.

While all drafts are accepted, the drafter's context equals the text. One pass of the draft model
over tokens that the target has already produced therefore shows, for every position, whether a
draft of the next token would have been accepted. Pure functions over numbers;
`replay_scoring_pass` runs the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.engine.worker.draft_coverage import Gap, Ints

MAX_REQUESTS = 4
"""Requests replayed at a time. Chosen empirically: estimates need tokens rather than requests, so
two would suffice, but a single unusual text should not dominate."""
JUDGED_TOKENS = 64
"""Judged tokens per request and pass, counted from the end: older text may differ in kind. Chosen
empirically."""
START_LENGTH = 2
"""Drafts begin where drafts of this length would have begun. Drafts of many tokens pass over
predictable text, so they begin at harder places than short ones, and it is a short length that
drafting resumes with."""
RECORDED_STEPS = 16
"""Steps for which target probabilities are recorded before a pass. Chosen empirically: some seven
drafts per request. Durations of these steps teach the cost model nothing, and more of them delay
the report."""


@dataclass(frozen=True, slots=True)
class ReplayCandidate:
    """A decoding request that could be replayed, when a pass is ordered."""

    request_id: str
    num_missing: int
    """Tokens that the draft model has not computed."""
    last_pass: int
    """Number of the last pass that judged it; 0 for none."""
    is_recorded: bool
    """Whether judging it needs target probabilities, which must be recorded first."""


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """Tokens [start, stop) of the request in `row` to compute; judged from `judged_from` on.

    A judged token is one whose prediction of the next token is compared with the text.
    """

    row: int
    start: int
    stop: int
    judged_from: int


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request that may be replayed, as of this step."""

    row: int
    num_prompt: int
    """Prompt tokens; the target has produced every token after the last of them."""
    num_computed: int
    """Tokens whose next token is known."""
    missing: Gap | None
    """The part of them that the draft model has not computed."""
    judged_until: int
    """Tokens before this one have been judged in an earlier pass."""
    target_probs: Mapping[int, float] | None
    """The target's probability of each token it sampled, by position. None where drafts are greedy:
    such a draft is accepted exactly when it equals the token in the text."""


def choose_requests(
    candidates: Sequence[ReplayCandidate], max_tokens: int
) -> list[ReplayCandidate]:
    """Return at most `MAX_REQUESTS` of the candidates for a pass of at most `max_tokens` tokens.

    Requests that the pass can compute completely take turns: those judged longest ago come first,
    then those with the fewest missing tokens, then the batch's order. The others follow, fewest
    missing tokens first: they cost a pass or more before anything recent can be judged. Where
    probabilities must be recorded first, all chosen requests miss further tokens meanwhile and the
    pass must reach them, so requests are left out that it could compute only in part.
    """
    records = any(candidate.is_recorded for candidate in candidates)
    num_new = RECORDED_STEPS if records else 0

    def turn(candidate: ReplayCandidate) -> tuple[bool, int, int]:
        if candidate.num_missing + num_new > max_tokens:
            return True, 0, candidate.num_missing
        return False, candidate.last_pass, candidate.num_missing

    chosen: list[ReplayCandidate] = []
    room = max_tokens
    for candidate in sorted(candidates, key=turn):
        if len(chosen) == MAX_REQUESTS:
            break
        num_tokens = candidate.num_missing + num_new
        if chosen and records and num_tokens > room:
            continue
        chosen.append(candidate)
        room -= num_tokens
    return chosen


def steps_to_record(chosen: Sequence[ReplayCandidate], max_tokens: int) -> int:
    """Return for how many steps to record target probabilities before the pass; 0 for none.

    The chosen requests then miss one more token per step; the pass is to compute all of them. It is
    0 if not all of them fit: the pass computes missing tokens at once, and the next order finds
    fewer.
    """
    if not any(request.is_recorded for request in chosen):
        return 0
    num_tokens = sum(request.num_missing + RECORDED_STEPS for request in chosen)
    return RECORDED_STEPS if num_tokens <= max_tokens else 0


def choose_windows(requests: Sequence[ReplayRequest], max_tokens: int) -> list[ReplayWindow]:
    """Return what a pass of at most `max_tokens` tokens computes, in the order of `requests`.

    Missing tokens come first, oldest first, whether they can be judged or not. Of a request that
    misses nothing, its last tokens that have not been judged are recomputed, up to an equal share
    of the pass. Requests judged by target probabilities are not recomputed: those probabilities are
    unknown for tokens that were drafted.
    """
    windows: list[ReplayWindow] = []
    room = max_tokens
    for request in requests:
        first = max(request.num_prompt - 1, request.judged_until)
        if request.missing is not None:
            start = request.missing.start
            stop = min(request.missing.stop, start + room)
        elif request.target_probs is None:
            stop = request.num_computed
            start = max(stop - min(max_tokens // len(requests), room), first)
        else:
            continue
        if start >= stop:
            continue
        if request.target_probs is not None:
            first = max(first, _first_known(request.target_probs, stop))
        first = max(start, first, stop - JUDGED_TOKENS)
        windows.append(ReplayWindow(request.row, start, stop, min(first, stop)))
        room -= stop - start
    return windows


def _first_known(target_probs: Mapping[int, float], stop: int) -> int:
    """Return the first token before `stop` from which every next token's probability is known."""
    first = stop
    while first in target_probs:
        first -= 1
    return first


def replay_drafts(matches: Sequence[bool], depth: int) -> list[tuple[int, int]]:
    """Return (judged, accepted) of drafts of `depth` tokens on text that the target has produced.

    `matches`, shape (num_tokens,), says whether a draft of each token would have been accepted. A
    draft is accepted up to its first mismatch; where the text ends inside a draft, only its
    accepted tokens are judged. Drafts begin where drafts of `START_LENGTH` tokens would have begun:
    after the target's own token, which follows a mismatch or a complete draft of that length.

    >>> replay_drafts([True, True, False, True, True, True, True, False, True], depth=3)
    [(3, 2), (3, 3), (3, 1), (1, 1)]
    """
    drafts = []
    start = 0
    while start < len(matches):
        run = matches[start : start + depth]
        num_accepted = next((i for i, match in enumerate(run) if not match), len(run))
        num_judged = depth if num_accepted < len(run) else len(run)
        if num_judged:
            drafts.append((num_judged, num_accepted))
        start += min(num_accepted, START_LENGTH) + 1
    return drafts


def would_accept(draft_prob: float, target_prob: float, uniform: float) -> bool:
    """Return whether a sampled draft would have led to this token, given that the token occurred.

    Speculative sampling accepts a drafted token x with probability min(1, target(x) / draft(x)), so
    x is drafted and accepted with probability min(draft(x), target(x)). Given that x occurred,
    which has probability target(x), this is min(1, draft(x) / target(x)): over many tokens the
    acceptance rate is the same. `uniform` is a draw from [0, 1).
    Reference: Leviathan et al., Fast Inference from Transformers via Speculative Decoding (2023).
    """
    return uniform * target_prob < draft_prob


def missing_by_row(gaps: Sequence[Gap], num_rows: int) -> Ints:
    """Return the number of missing tokens of each row, shape (num_rows,)."""
    missing = np.zeros(num_rows, np.int64)
    for gap in gaps:
        missing[gap.row] = gap.stop - gap.start
    return missing
