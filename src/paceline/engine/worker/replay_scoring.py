"""What does a draft model's pass over finished text say about the drafts it would have made?

As long as drafts are accepted, the drafter's context is the text itself: so one pass over tokens
that the target has made shows, for every position, whether the draft of the next token would have
been accepted. Here is decided who is followed, which tokens a pass computes, which of them are
judged, and what drafts come of it. Knows numbers only; `replay_scoring_pass` runs the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.engine.worker.draft_coverage import Gap, Ints

# How an order and its report travel with vLLM's own objects, as attributes of these names.
ORDER = "paceline_replay_scoring_tokens"
REPORT = "paceline_replay_scoring"

# Requests judged at a time. Chosen by hand: two would do for the figures, which need tokens rather
# than requests, but one odd text should not speak for all.
MAX_FOLLOWED = 4
# Of each, the last tokens of a pass: what was made long ago may be another text. Chosen by hand.
JUDGED_TOKENS = 64


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """Tokens [start, stop) of the request in `row`, to be computed; judged from `judged_from` on.

    Judged is, for a token, what the draft model makes of the one after it.
    """

    row: int
    start: int
    stop: int
    judged_from: int


@dataclass(frozen=True, slots=True)
class Followed:
    """A request that is judged in hindsight, as it is in this step."""

    row: int
    num_prompt: int
    """Prompt tokens: what comes after the last of them, the target has made."""
    num_computed: int
    """Tokens whose next one is known."""
    missing: Gap | None
    """What the draft model has not computed of them."""
    judged_until: int
    """Tokens before this one were judged before."""
    chances: Mapping[int, float] | None
    """The target's chances of the tokens it sampled, by position; None where a draft is accepted
    when it is the token that came."""


def follow(request_ids: Sequence[str], is_decoding: Sequence[bool], missing: Ints) -> list[str]:
    """The requests to look at: at most `MAX_FOLLOWED` decoding ones with the fewest missing tokens,
    in the batch's order where these are equal. All arguments are (num_rows,).

    So those that were looked at before, which miss only what came since.
    """
    decoding = [row for row, decodes in enumerate(is_decoding) if decodes]
    decoding.sort(key=lambda row: int(missing[row]))
    return [request_ids[row] for row in decoding[:MAX_FOLLOWED]]


def choose_looks(followed: Sequence[Followed], max_tokens: int) -> list[ReplayWindow]:
    """What a pass of at most `max_tokens` tokens computes, in the order of `followed`.

    What is missing, oldest first, whether it can be judged or not. Of a request that misses
    nothing, what was not judged yet of its last tokens, up to an equal share of the pass; unless
    its drafts are judged by chances, which are not known for tokens that were drafted.
    """
    looks: list[ReplayWindow] = []
    room = max_tokens
    for request in followed:
        first = max(request.num_prompt - 1, request.judged_until)
        if request.missing is not None:
            start = request.missing.start
            stop = min(request.missing.stop, start + room)
        elif request.chances is None:
            stop = request.num_computed
            start = max(stop - min(max_tokens // len(followed), room), first)
        else:
            continue
        if start >= stop:
            continue
        if request.chances is not None:
            first = max(first, _first_known(request.chances, stop))
        first = max(start, first, stop - JUDGED_TOKENS)
        looks.append(ReplayWindow(request.row, start, stop, min(first, stop)))
        room -= stop - start
    return looks


def _first_known(chances: Mapping[int, float], stop: int) -> int:
    """The first of the tokens before `stop` from which on every next token's chance is known."""
    first = stop
    while first in chances:
        first -= 1
    return first


def verdicts(matches: Sequence[bool], depth: int) -> list[tuple[int, int]]:
    """Drafts of `depth` tokens, each from where the one before ended: (judged, accepted) of each.

    `matches`, (num_tokens,), says whether a draft of each token would have been accepted. A draft
    is accepted up to its first mismatch; the token in place of that, or after a whole draft, is the
    target's own, and the next draft begins after it. Where the text ends inside a draft, only what
    was accepted is judged.

    >>> verdicts([True, True, False, True, True, True, True, False, True], depth=3)
    [(3, 2), (3, 3), (1, 1)]
    """
    found = []
    start = 0
    while start < len(matches):
        run = matches[start : start + depth]
        num_accepted = next((i for i, match in enumerate(run) if not match), len(run))
        num_judged = depth if num_accepted < len(run) else len(run)
        if num_judged:
            found.append((num_judged, num_accepted))
        start += num_accepted + 1
    return found


def would_accept(draft_prob: float, target_prob: float, uniform: float) -> bool:
    """Whether a draft drawn from the drafter would have led to this token, seen from the token.

    Speculative sampling accepts a drafted token x with min(1, target(x) / draft(x)), so that x is
    drafted and accepted with min(draft(x), target(x)). Given that x came, which has the chance
    target(x), that is min(1, draft(x) / target(x)): over many tokens the acceptance is the same.
    Reference: Leviathan et al., Fast Inference from Transformers via Speculative Decoding (2023).
    """
    return uniform * target_prob < draft_prob


def missing_by_row(gaps: Sequence[Gap], num_rows: int) -> Ints:
    """Missing tokens of each row, (num_rows,)."""
    missing = np.zeros(num_rows, np.int64)
    for gap in gaps:
        missing[gap.row] = gap.stop - gap.start
    return missing
