"""Choose the check of a shown command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from documented_commands import other_programs, paceline_command, python_command
from documented_commands.pages import NOT_CHECKED, PROGRAMS, PROJECT, ShownCommand
from documented_commands.reader_files import MEASUREMENTS

NEED_TORCH = frozenset({"demo_recipe.deepen", "demo_recipe.train", "benchmarks/quality/study.py"})
"""Importing these takes seconds: `tests/engine` checks them, with the commands of vLLM."""
EXAMPLES_OF_CONTRIBUTORS = frozenset({"half", "halve"})
"""Policies that a page has the reader write."""
_PLACEHOLDERS = {r"^(?:[AB]_)?URL$": "http://127.0.0.1:8000", "sha256:…$": f"sha256:{'0' * 64}"}
_NO_COMMANDS = frozenset({"paceline shifting trace"})
"""Code within a sentence that only looks like a command: a field of a file."""


def needs_models(shown: ShownCommand) -> bool:
    """Whether the parser can only be had with vLLM or torch."""
    command = shown.command
    return command.program == "vllm" or any(word in NEED_TORCH for word in command.words[1:3])


def find_problems(shown: ShownCommand, folder: Path) -> list[str]:
    """What is wrong with the command, one line each.

    Args:
        shown: Not one that `needs_models`.
        folder: Holds the files that the pages assume the reader has; new files go there.
    """
    command = shown.command
    words = list(command.words[1:])
    problems = [
        f"{path} does not exist in the repository"
        for path in other_programs.find_missing_paths(command, PROJECT)
    ]
    found = None
    if " ".join(command.words) in _NO_COMMANDS or EXAMPLES_OF_CONTRIBUTORS.intersection(words):
        return problems
    if command.program == "paceline":
        for placeholder, value in _PLACEHOLDERS.items():
            words = [re.sub(placeholder, value, word) for word in words]
        found = paceline_command.find_problem(words, is_complete=shown.is_block)
        reads_a_measurement = MEASUREMENTS.intersection(_inputs(words))
        if found is None and shown.is_block and not reads_a_measurement:
            found = paceline_command.find_problem_of_values(words, folder)
    elif command.program == "python":
        found = python_command.find_problem(words, PROJECT)
    elif command.program == "make":
        found = other_programs.find_problem_of_make(words, PROJECT)
    elif command.program == "curl":
        found = other_programs.find_problem_of_curl(words, PROJECT)
    elif command.program not in PROGRAMS | NOT_CHECKED.keys():
        found = f"no check for {command.program}: add one, or a reason to pages.NOT_CHECKED"
    return problems if found is None else [*problems, found]


def _inputs(words: Sequence[str]) -> Iterator[str]:
    """The words that do not name a file to write."""
    for before, word in pairwise(["", *words]):
        if before not in ("--json", "--html", "--records", "--out"):
            yield word
