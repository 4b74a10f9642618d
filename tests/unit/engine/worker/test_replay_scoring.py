"""The requests, tokens and drafts of replay scoring, with worked examples."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from paceline.engine.worker.draft_coverage import Gap
from paceline.engine.worker.replay_scoring import (
    ReplayCandidate,
    ReplayRequest,
    ReplayWindow,
    choose_requests,
    choose_windows,
    missing_by_row,
    replay_drafts,
    steps_to_record,
    would_accept,
)

T, F = True, False


@pytest.mark.parametrize(
    ("matches", "drafts"),
    [
        ([], []),
        ([F], [(3, 0)]),
        ([T], [(1, 1)]),
        ([F, F, F], [(3, 0), (3, 0), (3, 0)]),
        # Accepted 2; the target's own token replaces the third, and the text ends.
        ([T, T, F], [(3, 2)]),
        # After two accepted and the target's own token (its match is ignored), the next draft.
        ([T, T, T, F, F], [(3, 3), (3, 0), (3, 0)]),
        ([T, T, T, T], [(3, 3), (1, 1)]),
        ([T, T, T, T, T, T], [(3, 3), (3, 3)]),
        ([F, T, F, T, T], [(3, 0), (3, 1), (2, 2)]),
    ],
)
def test_each_draft_begins_where_one_of_two_tokens_would(
    matches: list[bool], drafts: list[tuple[int, int]]
) -> None:
    assert replay_drafts(matches, depth=3) == drafts


def test_replayed_drafts_equal_those_of_real_speculation() -> None:
    """Simulated token by token: draft 2, take the matching ones and one more token."""
    generator = random.Random(7)
    matches = [generator.random() < 0.7 for _ in range(500)]
    drafts, position = [], 0
    while position + 2 < len(matches):
        accepted = 0
        while accepted < 2 and matches[position + accepted]:
            accepted += 1
        drafts.append((2, accepted))
        position += accepted + 1
    assert replay_drafts(matches, depth=2)[: len(drafts)] == drafts
    deeper = [min(accepted, 2) for _, accepted in replay_drafts(matches, depth=4)]
    assert deeper[: len(drafts)] == [accepted for _, accepted in drafts]


def candidate(
    request_id: str, num_missing: int = 0, last_pass: int = 0, *, recorded: bool = False
) -> ReplayCandidate:
    return ReplayCandidate(request_id, num_missing, last_pass, recorded)


def ids(chosen: list[ReplayCandidate]) -> list[str]:
    return [request.request_id for request in chosen]


def test_requests_take_turns() -> None:
    """Six that miss nothing, four judged in each pass: none waits for longer than one pass."""
    last_pass = dict.fromkeys("abcdef", 0)
    passes = []
    for number in range(1, 7):
        chosen = ids(choose_requests([candidate(r, 0, n) for r, n in last_pass.items()], 64))
        last_pass.update(dict.fromkeys(chosen, number))
        passes.append("".join(chosen))
    assert passes == ["abcd", "efab", "cdab", "efab", "cdab", "efab"]


def test_among_requests_judged_equally_long_ago_the_fewest_missing_tokens_come_first() -> None:
    """a, f and g miss equally many, so the batch's order leaves out g."""
    missing = {"a": 9, "d": 5, "e": 3, "f": 9, "g": 9}
    chosen = choose_requests([candidate(r, n) for r, n in missing.items()], 64)
    assert ids(chosen) == ["e", "d", "a", "f"]
    assert choose_requests([], 64) == []


def test_a_request_that_a_pass_cannot_complete_waits_whoever_was_judged_last() -> None:
    """A new prompt of 5,000 tokens costs many passes; a request that misses 65 costs two."""
    candidates = [candidate("new", 5000), candidate("b", 20, 9), candidate("c", 65, 2)]
    assert ids(choose_requests(candidates, 64)) == ["b", "c", "new"]


def test_while_probabilities_are_recorded_every_chosen_request_must_fit() -> None:
    """16 more tokens each: 20 + 16 fit into 64; so do 2 + 16 beside them, 13 + 16 do not."""
    candidates = [
        candidate("a", 20, recorded=True),
        candidate("b", 13, last_pass=1),
        candidate("c", 2, last_pass=1, recorded=True),
    ]
    assert ids(choose_requests(candidates, 64)) == ["a", "c"]
    assert ids(choose_requests([candidate("a", 49, recorded=True)], 64)) == ["a"]


@pytest.mark.parametrize(
    ("missing", "max_tokens", "num_steps"),
    [
        ([0, 0, 0, 0], 64, 16),
        ([0], 64, 16),  # 64 would fit
        ([20, 4], 64, 16),
        ([20, 13], 64, 0),
        ([48], 64, 16),
        ([49], 64, 0),  # 15 would fit: too few
        ([100], 64, 0),
        ([100], 164, 16),
    ],
)
def test_probabilities_are_recorded_if_the_pass_can_compute_all_requests(
    missing: list[int], max_tokens: int, num_steps: int
) -> None:
    chosen = [candidate("a", num_missing, recorded=True) for num_missing in missing]
    assert steps_to_record(chosen, max_tokens) == num_steps


def test_nothing_is_recorded_for_requests_judged_by_the_text() -> None:
    assert steps_to_record([candidate("a"), candidate("b")], 64) == 0
    assert steps_to_record([], 64) == 0


def request(
    row: int = 0,
    *,
    num_computed: int = 40,
    missing_from: int | None = None,
    judged_until: int = 0,
    target_probs: Mapping[int, float] | None = None,
) -> ReplayRequest:
    """A request with a prompt of ten tokens."""
    return ReplayRequest(
        row=row,
        num_prompt=10,
        num_computed=num_computed,
        missing=None if missing_from is None else Gap(row, missing_from, num_computed),
        judged_until=judged_until,
        target_probs=target_probs,
    )


def test_prompt_tokens_are_computed_but_not_judged() -> None:
    """Token 9 is the last of the prompt; the target produced the tokens after it."""
    assert choose_windows([request(missing_from=0)], 64) == [ReplayWindow(0, 0, 40, 9)]
    assert choose_windows([request(missing_from=20)], 64) == [ReplayWindow(0, 20, 40, 20)]


def test_only_the_last_tokens_of_a_long_text_are_judged() -> None:
    """All 190 missing output tokens are computed, the last 64 are judged."""
    assert choose_windows([request(num_computed=200, missing_from=10)], 500) == [
        ReplayWindow(0, 10, 200, 136)
    ]


def test_a_long_prompt_is_computed_in_pieces() -> None:
    """40 missing tokens, 6 per pass: the last three of the second piece are judged."""
    windows = [choose_windows([request(missing_from=start)], 6)[0] for start in (0, 6, 12)]
    assert windows == [
        ReplayWindow(0, 0, 6, 6),
        ReplayWindow(0, 6, 12, 9),
        ReplayWindow(0, 12, 18, 12),
    ]


def test_the_pass_is_filled_in_the_order_of_the_requests() -> None:
    """All 30 of the first, the oldest 10 of the second, none of the third."""
    windows = choose_windows([request(i, missing_from=10) for i in (2, 0, 1)], 40)
    assert windows == [ReplayWindow(2, 10, 40, 10), ReplayWindow(0, 10, 20, 10)]


def test_without_missing_tokens_the_last_ones_are_recomputed() -> None:
    """An equal share of 32 for each, of output tokens that have not been judged."""
    assert choose_windows(
        [request(0), request(1, judged_until=30), request(2, num_computed=12), request(3)], 32
    ) == [
        ReplayWindow(0, 32, 40, 32),
        ReplayWindow(1, 32, 40, 32),
        ReplayWindow(2, 9, 12, 9),
        ReplayWindow(3, 32, 40, 32),
    ]
    assert choose_windows([request(judged_until=38)], 32) == [ReplayWindow(0, 38, 40, 38)]
    assert choose_windows([request(judged_until=40)], 32) == []


def test_judging_by_target_probs_begins_after_the_last_unknown_prob() -> None:
    """Known for tokens 36 and 38 to 40: tokens 37 to 39 can be judged by the token after each."""
    target_probs = dict.fromkeys((36, 38, 39, 40), 0.5)
    assert choose_windows([request(missing_from=20, target_probs=target_probs)], 64) == [
        ReplayWindow(0, 20, 40, 37)
    ]
    assert choose_windows([request(missing_from=20, target_probs={})], 64) == [
        ReplayWindow(0, 20, 40, 40)
    ]
    # Limited to 38: token 36 would be judged by token 37, whose probability is unknown.
    assert choose_windows([request(missing_from=20, target_probs=target_probs)], 18) == [
        ReplayWindow(0, 20, 38, 37)
    ]


def test_requests_judged_by_target_probs_are_not_recomputed() -> None:
    """Without a gap the tokens were drafted, so their target probabilities are unknown."""
    assert choose_windows([request(target_probs={40: 0.5})], 64) == []


def test_without_requests_there_are_no_windows() -> None:
    assert choose_windows([], 64) == []


def test_would_accept_has_the_acceptance_rate_of_speculative_sampling() -> None:
    """Two distributions over three tokens; the sum of their minima, 0.7, is accepted."""
    target_probs, draft_probs = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    number = random.Random(3)
    accepted = 0
    for token in number.choices(range(3), target_probs, k=20_000):
        accepted += would_accept(draft_probs[token], target_probs[token], number.random())
    assert accepted / 20_000 == pytest.approx(0.7, abs=0.01)


def test_missing_tokens_by_row() -> None:
    assert missing_by_row([Gap(2, 3, 8), Gap(0, 1, 2)], 4).tolist() == [1, 0, 5, 0]
