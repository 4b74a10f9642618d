"""The tokens that a grammar allows, and the most probable one of them."""

from __future__ import annotations

import pytest

from chaos.real_engines.answers.answer_judge import NUM_LOGPROBS, ForcedToken
from chaos.real_engines.answers.grammar_tokens import GrammarTokens, best_listed

END, SPECIAL = 0, 1
TEXTS = ["", "", "red", "re", "d", "blue", ",", "red,", "green"]
COLOURS = GrammarTokens("(red|blue)(,(red|blue))?", TEXTS, {END})


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", {"red", "re", "blue", "red,"}),
        ("re", {"d"}),
        ("red", {",", "the end"}),
        ("red,", {"red", "re", "blue"}),
        ("red,blue", {"the end"}),
        ("green", set()),
    ],
)
def test_allowed_tokens_are_those_after_which_the_text_can_be_completed(
    text: str, allowed: set[str]
) -> None:
    found = COLOURS.allowed_after(text)
    assert {TEXTS[token] or "the end" for token in found} == allowed
    assert found == {token for token in range(len(TEXTS)) if COLOURS.allows(text, token)}
    assert SPECIAL not in found


def listed(**others: float) -> ForcedToken:
    """The most probable tokens 100, 101, …, and some more."""
    first = {100 + number: -1 - number / 16 for number in range(NUM_LOGPROBS)}
    return ForcedToken(
        2, first | {int(name.removeprefix("t")): one for name, one in others.items()}
    )


@pytest.mark.parametrize(
    ("one", "allowed", "best"),
    [
        (listed(), {100, 101}, -1.0),
        (listed(t2=-0.5), {2, 101}, -0.5),
        (listed(t2=-5.0), {2, 119}, -2.1875),
        (listed(t2=-5.0), {2}, None),  # another one that is not listed may be more probable
        (listed(), set(), None),
    ],
)
def test_the_best_allowed_token_is_known_if_it_is_among_the_most_probable_ones(
    one: ForcedToken, allowed: set[int], best: float | None
) -> None:
    assert best_listed(one, allowed.__contains__) == best
