"""The expected counters against an enumeration of every draft, acceptance and answer.

Target and draft are Markov chains over three tokens, of which token 0 ends an answer. The
enumeration follows a server: it drafts, accepts or rejects each token, samples the recovered or the
bonus token, and counts. It shares no code with what it checks.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest

from paceline.foundation.models.acceptance.blocks import by_start, count_drafts

TARGET = ((0.2, 0.5, 0.3), (0.1, 0.3, 0.6), (0.15, 0.25, 0.6))
"""Probabilities of the next token, by the token before; the rows are for tokens 0, 1 and 2."""
DRAFT = ((0.4, 0.3, 0.3), (0.05, 0.75, 0.2), (0.3, 0.3, 0.4))
FIRST = (0.2, 0.4, 0.4)
MAX_TOKENS = 4
END = 0


def enumerate_server(draft_length: int) -> tuple[float, list[float]]:
    """(expected drafts, expected accepted tokens by position) of one request."""

    @cache
    def from_here(before: int, num_written: int) -> tuple[float, ...]:
        if num_written >= MAX_TOKENS:
            return (0.0,) * (1 + draft_length)
        total = [1.0] + [0.0] * draft_length

        def step(last: int, written: tuple[int, ...], probability: float) -> None:
            """`written` were accepted in this draft, the last of them is `last`."""

            def finish(token: int, chance: float) -> None:
                emitted = (*written, token)
                is_over = END in emitted
                later = from_here(token, MAX_TOKENS if is_over else num_written + len(emitted))
                for index, value in enumerate(later):
                    total[index] += chance * value

            if len(written) == draft_length:
                for token in range(3):
                    finish(token, probability * TARGET[last][token])
                return
            p, q = TARGET[last], DRAFT[last]
            shared = sum(map(min, p, q))
            for token in range(3):
                accepted = probability * min(p[token], q[token])
                total[1 + len(written)] += accepted
                step(token, (*written, token), accepted)
                rejected = probability * (1 - shared)
                finish(token, rejected * max(0.0, p[token] - q[token]) / (1 - shared))

        step(before, (), 1.0)
        return tuple(total)

    sums = [0.0] * (1 + draft_length)
    for token, probability in enumerate(FIRST):
        if token != END:
            for index, value in enumerate(from_here(token, 1)):
                sums[index] += probability * value
    return sums[0], sums[1:]


def estimate(draft_length: int, *, uses_means: bool) -> tuple[float, list[float]]:
    """The mean of `count_drafts` over every text of the target."""
    drafts, accepted = 0.0, [0.0] * draft_length
    for text in itertools.product(range(3), repeat=MAX_TOKENS + draft_length - 1):
        pairs = list(itertools.pairwise(text))
        probability = FIRST[text[0]] * math.prod(TARGET[a][b] for a, b in pairs)
        realised = [0.0] + [min(1.0, DRAFT[a][b] / TARGET[a][b]) for a, b in pairs]
        expected = [0.0] + [sum(map(min, TARGET[a], DRAFT[a])) for a, _ in pairs]
        end = text[:MAX_TOKENS].index(END) + 1 if END in text[:MAX_TOKENS] else MAX_TOKENS
        counts = count_drafts(
            by_start(realised, draft_length),
            by_start(expected if uses_means else realised, draft_length),
            num_tokens=end,
            max_draft_length=draft_length,
        )
        drafts += probability * counts.num_drafts
        for index, value in enumerate(counts.accepted_per_position):
            accepted[index] += probability * value
    return drafts, accepted


@pytest.mark.parametrize("draft_length", [1, 2, 3])
@pytest.mark.parametrize("uses_means", [True, False])
def test_the_mean_over_answers_is_what_a_server_counts(draft_length: int, uses_means: bool) -> None:
    drafts, accepted = estimate(draft_length, uses_means=uses_means)
    served_drafts, served_accepted = enumerate_server(draft_length)
    assert drafts == pytest.approx(served_drafts, abs=1e-12)
    assert accepted == pytest.approx(served_accepted, abs=1e-12)


def test_drafts_of_a_known_greedy_text() -> None:
    """Tokens 1 to 5 are drafted; token 3 is wrong. Drafts of two begin at 1 (both right, then one
    more token) and at 4 (both right)."""
    hits = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    rows = by_start(hits, 2)
    counts = count_drafts(rows, rows, num_tokens=6, max_draft_length=2)
    assert counts.num_drafts == 2
    assert counts.accepted_per_position == (2, 2)
    assert counts.reached_per_position == (2, 2)
    assert (counts.token_acceptance_sum, counts.num_tokens) == (4, 5)


def test_a_draft_may_reach_past_the_end_but_none_begins_there() -> None:
    hits = [0.0, 0.0, 1.0, 1.0, 1.0]
    rows = by_start(hits, 3)
    counts = count_drafts(rows, rows, num_tokens=3, max_draft_length=3)
    assert counts.num_drafts == 2
    assert counts.accepted_per_position == (1, 1, 1)


def test_an_answer_of_one_token_is_never_drafted() -> None:
    rows = by_start([0.0, 1.0], 2)
    counts = count_drafts(rows, rows, num_tokens=1, max_draft_length=2)
    assert (counts.num_drafts, counts.num_tokens) == (0, 0)
    assert counts.accepted_per_position == (0, 0)


def test_acceptance_may_depend_on_where_the_draft_began() -> None:
    """Of drafts of two, the second token is accepted in that which begins at 1 and in no other."""
    rows = [[], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    counts = count_drafts(rows, rows, num_tokens=5, max_draft_length=2)
    assert counts.num_drafts == 2  # at 1, and at 4
    assert counts.accepted_per_position == (2, 1)
