"""What `paceline plan` prints for the commands that a page shows with their output."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from documented_commands.pages import blocks_of, commands_of_block
from paceline.cli import main
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.workbench.plan import command as plan_command

MACHINE = Machine(2, 16 * 1024**3, frozenset({"avx512f", "avx512_vnni"}))
"""The machine of `--gpu cpu`, as the pages describe it."""
ELLIPSIS = "…"
"""A line that stands for lines left out."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A console block with one `paceline plan` and its output."""

    line: int
    arguments: tuple[str, ...]
    output: tuple[str, ...]


def plans_of(text: str) -> Iterator[ShownPlan]:
    """The plans that a page shows with their output."""
    for block in blocks_of(text):
        commands = list(commands_of_block(block)) if block.language == "console" else []
        if commands and commands[0][1].words[:2] == ("paceline", "plan"):
            ((_, command),) = commands
            output = block.text.splitlines()[1:]
            yield ShownPlan(block.line, command.words[1:], tuple(output))


def print_plan(arguments: Sequence[str], folder: Path) -> list[str]:
    """The lines that the command prints on `MACHINE` in this folder."""
    this_machine = mock.patch.object(plan_command, "read_machine", return_value=MACHINE)
    with contextlib.chdir(folder), this_machine:
        return CliRunner().invoke(main, list(arguments)).stdout.splitlines()


def is_printed(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the shown lines are the printed ones, apart from those left out."""
    at, may_skip = 0, False
    for part in _parts(shown):
        starts = range(at, len(printed)) if may_skip else [at]
        found = next((i for i in starts if list(printed[i : i + len(part)]) == part), None)
        if found is None:
            return False
        at, may_skip = found + len(part), True
    return at == len(printed) or (len(shown) > 0 and shown[-1] == ELLIPSIS)


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == ELLIPSIS:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts
