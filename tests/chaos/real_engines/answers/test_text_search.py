"""A text is right if near-ties and the most probable tokens after them give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chaos.real_engines.answers.answer_judge import (
    AnswerLimits,
    Difference,
    ForcedToken,
    find_difference,
)
from chaos.real_engines.answers.text_search import MAX_FOLLOWED, TextSearch
from chaos.transcript import Transcript

END = 0
TEXTS = ["", "one", " two", " six", " s", " ten", " seven", " eight", "a", "a"]
TEXTS.append("\N{REPLACEMENT CHARACTER}")
BEST, CLOSE, ALMOST, FAR = -0.5, -0.55, -0.6, -3.0
AFTER: Mapping[tuple[int, ...], Mapping[int, float]] = {
    (): {1: BEST},
    (1,): {2: BEST, 3: ALMOST, 4: CLOSE, 5: FAR},
    (1, 3): {6: BEST, 7: FAR},
    (1, 3, 6): {END: BEST, 7: ALMOST},
}
"""What an engine computes after these tokens; the answer ends after all others."""
REFERENCE = Transcript(text="one two", ids=[1, 2, END], finish_reasons=["stop"])


def decode(ids: Sequence[int]) -> str:
    return "".join(TEXTS[token] for token in ids)


def search_text(
    text: str,
    finish_reason: str = "stop",
    *,
    max_tokens: int = 8,
    after: Mapping[tuple[int, ...], Mapping[int, float]] = AFTER,
) -> tuple[Difference | None, int]:
    """The verdict, and how often an engine had to generate. Without `finish_reason`, the answer is
    not whole."""
    is_whole = bool(finish_reason)
    found = Transcript(text=text, finish_reasons=[finish_reason] if is_whole else [])
    difference = find_difference(REFERENCE, found, has_ids=False, is_whole=is_whole)
    if difference is None or difference.fault is not None:
        return difference, 0
    search = TextSearch(
        found, decode, AnswerLimits(max_tokens, {END}, near_tie_nats=0.25), is_whole=is_whole
    )
    num_followed = 0
    while (ids := search.next_ids) is not None:
        search.note(generate(ids, max_tokens, after))
        num_followed += 1
    return search.verdict(difference), num_followed


def generate(
    ids: Sequence[int], max_tokens: int, after: Mapping[tuple[int, ...], Mapping[int, float]]
) -> list[ForcedToken]:
    path, tokens = list(ids), list[ForcedToken]()
    while len(path) < max_tokens and path[-1:] != [END]:
        logprobs = after.get(tuple(path), {END: BEST})
        path.append(max(logprobs, key=lambda token: logprobs[token]))
        tokens.append(ForcedToken(path[-1], logprobs))
    return tokens


def test_the_same_text_needs_no_engine() -> None:
    assert search_text("one two") == (None, 0)


@pytest.mark.parametrize(
    ("text", "finish_reason", "max_tokens", "num_followed", "gap_nats"),
    [
        ("one s", "stop", 8, 2, 0.05),
        ("one six seven", "stop", 8, 3, 0.1),
        ("one six seven eight", "stop", 8, 4, 0.1),  # two near-ties
        ("one six seven", "length", 3, 3, 0.1),
        ("one six", "length", 2, 1, 0.1),
        ("one si", "", 8, 1, 0.1),
        ("one six sev", "", 8, 3, 0.1),
    ],
)
def test_a_near_tie_and_what_an_engine_generates_after_it_is_no_fault(
    text: str, finish_reason: str, max_tokens: int, num_followed: int, gap_nats: float
) -> None:
    found, num_generated = search_text(text, finish_reason, max_tokens=max_tokens)
    assert found is not None
    assert (found.fault, found.is_tail_unjudged) == (None, False)
    assert found.gap_nats == pytest.approx(gap_nats)
    assert num_generated == num_followed


@pytest.mark.parametrize(
    ("text", "finish_reason"),
    [
        ("one ten", "stop"),
        ("one tax", "stop"),
        ("onne two", "stop"),
        ("one six", "stop"),  # too early, after a near-tie
        ("one six eight", "stop"),  # another token after a near-tie
        ("one six seven seven", "stop"),
        ("one six seven", "length"),
        ("one sixsix", ""),
    ],
)
def test_a_planted_fault_is_found(text: str, finish_reason: str) -> None:
    found, _ = search_text(text, finish_reason)
    assert found is not None
    assert found.fault is not None


@pytest.mark.parametrize("text", ["", "one", "one tw", "one two three"])
def test_another_length_than_the_references_is_found_without_an_engine(text: str) -> None:
    found, num_generated = search_text(text)
    assert found is not None
    assert (found.fault is not None, num_generated) == (True, 0)


def test_half_a_character_fits_any_text() -> None:
    found, _ = search_text("one six", "length", max_tokens=3, after={**AFTER, (1, 3): {10: BEST}})
    assert found is not None
    assert found.fault is None


def test_a_text_with_too_many_ways_to_it_stays_unjudged() -> None:
    """Two tokens have the same text, and no path ends where the answer does."""
    after = {path: {8: BEST, 9: ALMOST} for path in _paths(6)}
    found, num_generated = search_text("aaaaaaaa", after=after)
    assert found is not None
    assert (found.fault, found.is_tail_unjudged) == (None, True)
    assert num_generated == MAX_FOLLOWED


def _paths(max_length: int) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for path in paths:
        if len(path) < max_length:
            paths += [(*path, 8), (*path, 9)]
    return paths
