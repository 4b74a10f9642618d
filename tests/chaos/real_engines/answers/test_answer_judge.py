"""Wrong tokens, ends and texts that are planted in an answer are found; near-ties are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.real_engines.answers.answer_judge import (
    AnswerLimits,
    Difference,
    ForcedToken,
    fault_of_text,
    find_difference,
    judge_ids,
    judge_sampled,
    judge_swap,
    judge_tail,
)
from chaos.transcript import Transcript

END = 0
REFERENCE = Transcript(text="one two", ids=[5, 6, END], finish_reasons=["stop"])
BEST, ALMOST, FAR = -0.5, -0.6, -3.0
OTHER, ANOTHER = 98, 99
"""Tokens that occur in no answer."""
LIMITS = AnswerLimits(max_tokens=8, end_ids={END}, near_tie_nats=0.25)


def answer(ids: list[int], text: str = "one six", finish_reason: str = "stop") -> Transcript:
    return Transcript(text=text, ids=ids, finish_reasons=[finish_reason])


def verdict(
    found: Transcript, *logprobs: float | None, max_tokens: int = 8, best: float = BEST
) -> Difference | None:
    """The verdict on an answer whose tokens have these log probabilities."""
    difference = find_difference(REFERENCE, found, has_ids=True)
    if difference is None or difference.fault is not None:
        return difference
    forced = [
        ForcedToken(token, {OTHER: best} if own is None else {OTHER: best, token: own})
        for token, own in zip(found.ids, logprobs, strict=True)
    ]
    return judge_ids(difference, found, forced, replace(LIMITS, max_tokens=max_tokens))


def test_the_same_answer_has_no_difference() -> None:
    assert find_difference(REFERENCE, replace(REFERENCE), has_ids=True) is None


def test_a_near_tie_is_no_fault() -> None:
    found = verdict(answer([5, 7, END]), BEST, ALMOST, BEST)
    assert found is not None
    assert (found.at, found.fault) == (1, None)
    assert found.gap_nats == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("found", "logprobs"),
    [
        (answer([5, 7, END]), (BEST, None, BEST)),  # not among the most probable tokens
        (answer([5, 7, END]), (BEST, FAR, BEST)),
        (answer([5, 7, 8, END]), (BEST, ALMOST, FAR, BEST)),  # after a near-tie
        (answer([5]), ()),
        (answer([5, 6]), ()),
        (answer([5, 6, END, 9]), ()),
        (answer([5, 7, 8]), (BEST, ALMOST, BEST)),  # "stop" without a token that ends answers
        (answer([5, 7, 8], finish_reason="length"), (BEST, ALMOST, BEST)),
        (answer([]), ()),
        (replace(REFERENCE, text="one  two"), ()),
        (replace(REFERENCE, finish_reasons=["length"]), ()),
    ],
)
def test_a_planted_fault_is_found(found: Transcript, logprobs: tuple[float | None, ...]) -> None:
    difference = verdict(found, *logprobs)
    assert difference is not None
    assert difference.fault is not None


def test_an_answer_that_reaches_its_limit_after_a_near_tie_is_no_fault() -> None:
    found = answer([5, 7, 8], finish_reason="length")
    difference = verdict(found, BEST, ALMOST, BEST, max_tokens=3)
    assert difference is not None
    assert difference.fault is None


def test_a_beginning_of_the_reference_is_no_difference_where_the_answer_is_not_whole() -> None:
    beginning = Transcript(text="one", ids=[5])
    assert find_difference(REFERENCE, beginning, has_ids=True, is_whole=False) is None
    assert find_difference(REFERENCE, beginning, has_ids=False, is_whole=False) is None
    assert find_difference(REFERENCE, Transcript(), has_ids=True, is_whole=False) is None


@pytest.mark.parametrize(
    "beginning",
    [
        Transcript(text="one"),  # no token ids
        Transcript(text="oneone", ids=[5]),
        Transcript(text="one two", ids=[5, 6, END, END]),
    ],
)
def test_a_planted_fault_in_a_beginning_is_found(beginning: Transcript) -> None:
    difference = find_difference(REFERENCE, beginning, has_ids=True, is_whole=False)
    assert difference is not None
    assert difference.fault is not None


def test_a_wrong_token_in_a_beginning_is_found() -> None:
    beginning = Transcript(text="one six", ids=[5, 7])
    difference = find_difference(REFERENCE, beginning, has_ids=True, is_whole=False)
    assert difference == Difference(1)
    forced = [ForcedToken(5, {5: BEST}), ForcedToken(7, {OTHER: BEST, 7: FAR})]
    assert judge_ids(difference, beginning, forced, LIMITS, is_whole=False).fault is not None
    forced[1] = ForcedToken(7, {OTHER: BEST, 7: ALMOST})
    assert judge_ids(difference, beginning, forced, LIMITS, is_whole=False).fault is None


@pytest.mark.parametrize(
    ("own", "reference", "is_right"),
    [
        ({7: -5.1}, {6: -5.0}, True),
        ({7: -5.0}, {6: -5.1}, True),
        ({7: -6.0}, {6: -5.0}, False),
        ({7: -4.0}, {6: -5.0}, False),
        ({OTHER: BEST}, {6: -5.0}, False),
        ({7: -5.0}, {OTHER: BEST}, False),
    ],
)
def test_two_tokens_under_a_grammar_are_compared_with_each_other(
    own: dict[int, float], reference: dict[int, float], is_right: bool
) -> None:
    tokens = ForcedToken(7, {OTHER: BEST, **own}), ForcedToken(6, {OTHER: BEST, **reference})
    found = judge_swap(Difference(1), *tokens, LIMITS)
    assert (found.fault is None) == is_right


def tail_verdict(found: Transcript, own: float | None, best: float | None) -> Difference:
    """The verdict on an answer whose first token differs, by the two tokens after it."""
    seven = {OTHER: BEST} if own is None else {OTHER: BEST, 7: own}
    tail = ForcedToken(7, seven), ForcedToken(END, {END: BEST})
    return judge_tail(Difference(0, 0.1), found, tail, (best, BEST), LIMITS)


WHOLE = answer([5, 7, END])


@pytest.mark.parametrize(
    ("own", "best"),
    [(-4.0, -4.0), (-4.0, -3.9)],  # the best of all tokens is forbidden
)
def test_tokens_after_a_near_tie_under_a_grammar_are_the_best_allowed_ones(
    own: float, best: float
) -> None:
    assert tail_verdict(WHOLE, own, best) == Difference(0, 0.1)


@pytest.mark.parametrize(
    ("found", "own", "best", "fault"),
    [
        (WHOLE, -4.0, -3.0, "token 1, 7, is 1.000 nats less probable than the best allowed one"),
        (WHOLE, -4.0, None, "token 1, 7, is forbidden by the grammar"),
        (WHOLE, None, BEST, "token 1, 7, is unknown"),
        (answer([5, 7, END], finish_reason="length"), BEST, BEST, "it ends with"),
        (answer([5, 7, 8]), BEST, BEST, "it ends with"),
    ],
)
def test_a_planted_fault_after_a_near_tie_under_a_grammar_is_found(
    found: Transcript, own: float | None, best: float | None, fault: str
) -> None:
    assert fault in (tail_verdict(found, own, best).fault or "")


@pytest.mark.parametrize(
    ("text", "text_of_ids", "is_whole", "is_right"),
    [
        ("one six", "one six", True, True),
        ("one six", "one si", True, False),
        ("one si", "one six", True, False),
        ("one si", "one six", False, True),
        ("one sixsix", "one six", False, False),
        ("one six", "one six\N{REPLACEMENT CHARACTER}", True, True),
    ],
)
def test_the_text_is_that_of_the_tokens(
    text: str, text_of_ids: str, *, is_whole: bool, is_right: bool
) -> None:
    fault = fault_of_text(answer([], text), text_of_ids, is_whole=is_whole)
    assert (fault is None) == is_right


TWO_BEST = {OTHER: BEST, ANOTHER: -1.0}


def sampled_verdict(found: Transcript, second: dict[int, float]) -> Difference | None:
    forced = [ForcedToken(OTHER, TWO_BEST), ForcedToken(7, second), ForcedToken(OTHER, TWO_BEST)]
    return judge_sampled(found, "one six", forced[: len(found.ids)], LIMITS, top_k=2)


@pytest.mark.parametrize("logprob", [BEST, -1.0, -1.2])
def test_a_sampled_token_among_the_most_probable_is_right(logprob: float) -> None:
    assert sampled_verdict(answer([5, 7, END]), {**TWO_BEST, 7: logprob}) is None


@pytest.mark.parametrize(
    ("found", "second"),
    [
        (answer([5, 7, END]), {**TWO_BEST, 7: -1.3}),
        (answer([5, 7, END]), TWO_BEST),
        (answer([5, 7, END]), {7: BEST}),  # one probability, where two are needed
        (answer([5, 7, END], text="one sixsix"), {**TWO_BEST, 7: BEST}),
        (answer([5, 7, 8]), {**TWO_BEST, 7: BEST}),
        (answer([5, 7, 8], finish_reason="length"), {**TWO_BEST, 7: BEST}),
        (answer([5, 7, 8, END]), {**TWO_BEST, 7: BEST}),
    ],
)
def test_a_planted_fault_in_a_sampled_answer_is_found(
    found: Transcript, second: dict[int, float]
) -> None:
    assert sampled_verdict(found, second) is not None
