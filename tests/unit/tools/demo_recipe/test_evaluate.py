"""Scores of answers with known results."""

from __future__ import annotations

import pytest
from demo_recipe.evaluate import is_same_json, parses, right_lines, score_answers


def test_right_lines_are_counted_in_their_order() -> None:
    reference = "def f(a):\n    b = a\n    c = b\n    return c"
    assert right_lines(reference, reference) == 1.0
    assert right_lines("def f(a):\n    wrong\n    c = b\n    return c", reference) == 0.75
    assert right_lines("    return c\ndef f(a):", reference) == 0.25
    assert right_lines("", reference) == 0.0


def test_scores_are_fractions_of_the_answers() -> None:
    """One of two completions parses; one rename differs in spaces, one JSON answer in layout."""
    scores = score_answers(
        {
            "complete": [("def f(:", ""), ("x = 1", "")],
            "rename": [("a = 1\n", "a = 1"), ("b\nc", "b\nd")],
            "json": [('{"a":1}', '{"a": 1}'), ("{", "{}"), ('{"a": 2}', '{"a": 1}')],
        }
    )
    assert scores == {
        "complete_parses": 0.5,
        "rename_exact": 0.5,
        "rename_lines": 0.75,
        "json_exact": pytest.approx(1 / 3),
    }


def test_answers_are_scored_by_meaning() -> None:
    assert parses("def f():\n    return 1")
    assert not parses("def f(:")
    assert is_same_json('{"b": 1, "a": [2]}', '{"a": [2], "b": 1}')
    assert not is_same_json('{"b": 1', '{"b": 1}')
