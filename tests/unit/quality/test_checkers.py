"""Scores of answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.foundation.answer_quality.checkers import check_reference, load_checker
from paceline.foundation.answer_quality.values import QualityError


@pytest.mark.parametrize(
    ("reference", "answer", "score"),
    [
        ("yes", " yes\n", 1.0),
        ("yes", "no", 0.0),
        ('{"a": [1, 2]}', '{"a":[1,2]}', 1.0),
        ('{"a": 1}', '{"a": 2}', 0.0),
        ("text", "{}", 0.0),
    ],
)
def test_answers_are_compared_with_the_reference(reference: str, answer: str, score: float) -> None:
    assert check_reference({"reference": reference}, answer) == score


def test_a_prompt_without_reference_has_no_score() -> None:
    assert check_reference({"prompt": "x"}, "answer") is None


def test_the_checker_of_a_file_is_called_with_prompt_and_answer(tmp_path: Path) -> None:
    file = tmp_path / "check.py"
    file.write_text("def score(prompt, answer):\n    return prompt['wanted'] in answer\n")
    check = load_checker(file)
    assert (check({"wanted": "b"}, "abc"), check({"wanted": "x"}, "abc")) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no function score"),
        ("import no_such_module_at_all", "cannot be imported: No module"),
        ("def score(prompt, answer):\n    return 7", "it must be a number from 0 to 1"),
        ("def score(prompt, answer):\n    return prompt['x']", "failed: KeyError"),
    ],
)
def test_a_bad_checker_is_reported(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "check.py"
    file.write_text(text)
    with pytest.raises(QualityError, match=message):
        load_checker(file)({}, "answer")
