"""The check of words finds them in prose, and only there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from plain_words.__main__ import main
from plain_words.checker import Word, check, load_words

WORDS = load_words()


def found(path: str, text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.found) for finding in check(path, text, WORDS)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("# Chosen by hand.", "by hand"),
        ('"""Whoever asks."""', "Whoever"),
        ('raise ValueError("so many tokens")', "so many"),
        ("logger.info('the stream goes on')", "goes on"),
        ('text = f"a stand-in at {port}"', "stand-in"),
    ],
)
def test_comments_docstrings_and_messages_are_prose(line: str, word: str) -> None:
    assert found("a.py", f"x = 1\n{line}\n") == [(2, word)]


def test_a_docstring_of_several_lines_names_the_line() -> None:
    assert found("a.py", '"""One.\n\nTwo is dear.\n"""\n') == [(3, "dear")]


def test_names_in_code_are_not_prose() -> None:
    assert found("a.py", "steering = told.by_hand\n") == []


def test_part_of_a_word_is_not_the_word() -> None:
    assert found("a.md", "The bearer of an amendment retold it.\n") == []


def test_code_in_markdown_is_not_prose() -> None:
    text = "Set `lifeline`.\n\n```\nsteering = 1\n```\n\nThe lifeline.\n"
    assert found("a.md", text) == [(7, "lifeline")]


@pytest.mark.parametrize(
    "line", ["They are told apart by name.", "It leaves nothing behind.", "So many that it fails."]
)
def test_contexts_that_are_allowed(line: str) -> None:
    assert found("a.md", line + "\n") == []


def test_a_module_that_opens_with_a_question_is_found() -> None:
    [finding] = check("a.py", '"""How is it done?\n\nSo.\n"""\n', WORDS)
    assert (finding.line, finding.instead) == (1, "a statement of what the module holds")
    assert check("a.py", '"""Do it.\n\nWhy? So.\n"""\n', WORDS) == []


def test_a_heading_that_asks_is_found() -> None:
    assert found("a.md", "# Title\n\nWhy?\n\n## What for?\n") == [(5, "## What for?")]


def test_an_exception_is_for_its_line_only() -> None:
    word = Word(re.compile("odd"), "even", (re.compile("odd one"),))
    assert [f.line for f in check("a.txt", "odd one\nodd\n", [word])] == [2]


def test_the_command_fails_with_the_place_and_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("Fine.\n")
    assert main([]) == 0
    (tmp_path / "b.md").write_text("Mend it.\n")
    assert main([]) == 1
    assert "b.md:1: 'Mend': write 'fix, fixes, fixed'" in capsys.readouterr().out
    assert main(["a.md"]) == 0
