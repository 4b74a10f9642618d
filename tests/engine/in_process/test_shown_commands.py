"""Commands of the README and the docs whose parsers need vLLM or torch.

The others: tests/unit/docs/test_commands.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from documented_commands.checking import find_problems, needs_models
from documented_commands.pages import PAGES, shown_on
from documented_commands.vllm_command import find_problem, shown_arguments

pytestmark = pytest.mark.engine


def test_vllm_accepts_its_shown_arguments() -> None:
    found = [(place, words) for page in PAGES for place, words in shown_arguments(page)]
    assert len(found) > 5
    problems = [f"{place}: {problem}" for place, words in found if (problem := find_problem(words))]
    assert problems == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["MODEL", "--schedular-cls", "a.B"], "--schedular-cls"),
        (["MODEL", "--max-num-seqs", "many"], "many"),
        (["MODEL", "--speculative-config", "{method: ngram}"], "--speculative-config"),
    ],
)
def test_vllm_refuses_wrong_arguments(arguments: list[str], problem: str) -> None:
    refused = find_problem(arguments)
    assert refused is not None
    assert problem in refused


def test_scripts_that_import_torch_accept_their_shown_arguments(tmp_path: Path) -> None:
    shown = [
        one
        for page in PAGES
        for one in shown_on(page)
        if needs_models(one) and one.command.program != "vllm"
    ]
    assert shown
    problems = [f"{one}: {problem}" for one in shown for problem in find_problems(one, tmp_path)]
    assert problems == []
