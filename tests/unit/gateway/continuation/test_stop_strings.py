"""Stop strings across the resume point, against vLLM's rule on the whole text."""

from __future__ import annotations

import random

import pytest

from paceline.runtime.gateway.continuation.stop_strings import StopScanner


def whole_answer(text: str, stops: list[str], shows_stop: bool) -> str:
    """The text that vLLM returns when this text arrives one character at a time."""
    ends = [(text.find(stop) + len(stop), stops.index(stop)) for stop in stops if stop in text]
    if not ends:
        return text
    end, rank = min(ends)
    return text[: end if shows_stop else end - len(stops[rank])]


def scan(pieces: list[str], stops: list[str], shows_stop: bool, delivered: str = "") -> str:
    scanner = StopScanner(stops, shows_stop=shows_stop, delivered=delivered)
    return delivered + "".join(map(scanner.feed, pieces)) + scanner.flush()


@pytest.mark.parametrize("shows_stop", [False, True])
def test_a_stop_string_in_pieces_ends_the_answer(shows_stop: bool) -> None:
    answer = scan(["ab", "c E", "N", "D rest"], ["END"], shows_stop)
    assert answer == ("abc END" if shows_stop else "abc ")


def test_a_shown_stop_string_may_begin_in_what_was_delivered() -> None:
    scanner = StopScanner(["END"], shows_stop=True, delivered="abc EN")
    assert scanner.feed("D rest") == "D"
    assert scanner.matched == "END"
    assert scanner.feed("more") == ""
    assert scanner.flush() == ""


def test_what_was_delivered_is_not_sent_again() -> None:
    assert StopScanner(["END"], shows_stop=True, delivered="abcdef").feed("g") == "g"


def test_characters_that_could_begin_a_stop_string_wait() -> None:
    scanner = StopScanner(["</s>"], shows_stop=False, delivered="")
    assert scanner.feed("hello</") == "hell"
    assert scanner.feed("b>") == "o<"
    assert scanner.flush() == "/b>"


def test_without_stop_strings_nothing_waits() -> None:
    scanner = StopScanner([], shows_stop=False, delivered="x")
    assert scanner.feed("abc") == "abc"
    assert scanner.flush() == ""


def test_any_split_gives_the_answer_of_the_whole() -> None:
    rng = random.Random(4)
    for _ in range(3000):
        text = "".join(rng.choices("ab", k=rng.randint(0, 14)))
        stops = ["".join(rng.choices("ab", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 3))]
        stops = list(dict.fromkeys(stops))
        shows_stop = rng.random() < 0.5
        expected = whole_answer(text, stops, shows_stop)
        pieces = list(text)  # vLLM looks whenever text comes; a character at a time is unambiguous
        assert scan(pieces, stops, shows_stop) == expected, (text, stops, shows_stop)
        reach = max(map(len, stops)) - 1
        cut = rng.randint(0, len(text))
        has_ended = whole_answer(text[:cut], stops, shows_stop) != text[:cut] or any(
            stop in text[:cut] for stop in stops
        )
        if not has_ended:
            sent = text[:cut] if shows_stop else text[: max(cut - reach, 0)]
            point = scan([text[len(sent) : cut], *text[cut:]], stops, shows_stop, sent)
            assert point == expected, (text, stops, shows_stop, cut)


def test_the_stop_string_that_is_complete_first_ends_the_answer() -> None:
    """Of two that are complete at the same character, the first in the list does."""
    for stops, matched in ((["bcd", "bc"], "bc"), (["c", "bc"], "c"), (["bc", "c"], "bc")):
        scanner = StopScanner(stops, shows_stop=False, delivered="")
        assert scanner.feed("abcd") == "abcd"[: "abcd".index(matched)]
        assert scanner.matched == matched


@pytest.mark.parametrize("shows_stop", [False, True])
def test_little_of_a_long_answer_is_kept(shows_stop: bool) -> None:
    scanner = StopScanner(["</s>", "x"], shows_stop=shows_stop, delivered="d" * 100)
    sent = sum(len(scanner.feed("abcdefgh")) for _ in range(100))
    assert sent == 800 - (0 if shows_stop else 3)
    assert len(scanner._text) == (3 if shows_stop else 6)
