"""Find the commands that README.md, CONTRIBUTING.md and docs/ show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from documented_commands.shell import ShellCommand, logical_lines, program_of, split_commands

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted(path for path in (PROJECT / "docs").rglob("*.md") if path.name != "claims.md"),
]
"""Without the ledger: its commands are those that raw results record, of scripts as they were."""
PROGRAMS = frozenset({"paceline", "vllm", "python", "make"})
"""Checked against their own parsers."""
NOT_CHECKED = {
    "cat": "of the system",
    "cd": "of the system",
    "curl": "its JSON alone is checked",
    "docker": "not installed where the tests run",
    "export": "of the shell",
    "git": "of the system",
    "grep": "of the system",
    "helm": "not installed where the tests run",
    "hf": "loads models from huggingface.co",
    "kubectl": "needs a cluster",
    "nvidia-smi": "needs a GPU",
    "pip": "reads a package index",
    "podman": "not installed where the tests run",
    "printf": "of the system",
    "sudo": "changes the machine",
    "unzip": "of the system",
}
"""Programs whose arguments no parser checks, with the reason."""
_SHELL_LANGUAGES = frozenset({"sh", "bash", "console", "shell"})
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_INLINE = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(?:paceline|vllm|python3?|make) ")


@dataclass(frozen=True, slots=True)
class ShownCommand:
    """A command and where it stands."""

    page: str
    """Path from the root of the repository."""
    line: int
    command: ShellCommand
    is_block: bool
    """In a block of its own, not within a sentence."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {' '.join(self.command.words)}"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    line: int
    """Of its first line of text, from 1."""
    language: str
    text: str


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for fence in _FENCE.finditer(text):
        indent = len(fence[1])
        body = "\n".join(line[indent:] for line in fence[3].splitlines())
        yield Block(text.count("\n", 0, fence.start(3)) + 1, fence[2], body)


def commands_of_block(block: Block) -> Iterator[tuple[int, ShellCommand]]:
    """The commands of a block with their lines; none if the block shows something else.

    A block without a language shows commands if its first line is one. Where a line begins with
    `$ `, only such lines are commands, and the others what they print.
    """
    if block.language not in _SHELL_LANGUAGES and not (
        block.language == "" and _starts_with_a_command(block.text)
    ):
        return
    has_prompts = re.search(r"^\$ ", block.text, re.MULTILINE) is not None
    for number, line in logical_lines(_prompted(block.text) if has_prompts else block.text):
        for command in split_commands(line):
            yield block.line + number, command


def _starts_with_a_command(text: str) -> bool:
    first = text.lstrip().partition("\n")[0].removeprefix("$ ").rstrip("\\")
    if "─" in first:  # a diagram
        return False
    words = [word for word in first.split() if not re.match(r"[A-Z_]+=", word)]
    name = program_of(words[0]) if words else ""
    return name in PROGRAMS or name in NOT_CHECKED or name == "for"


def _prompted(text: str) -> str:
    """The lines after a prompt, with their continuations; the others empty."""
    lines, continues = [], False
    for line in text.splitlines():
        is_command = continues or line.startswith("$ ")
        lines.append(line.removeprefix("$ ") if is_command else "")
        continues = is_command and line.endswith("\\")
    return "\n".join(lines)


def shown_in(page: str, text: str) -> Iterator[ShownCommand]:
    """All commands of a page: those of its blocks, then those within sentences.

    Raises `ValueError` if a block cannot be split into commands.
    """
    for block in blocks_of(text):
        try:
            for line, command in commands_of_block(block):
                yield ShownCommand(page, line, command, is_block=True)
        except ValueError as error:
            raise ValueError(f"{page}:{block.line}: {error}") from None
    without_blocks = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for code in _CODE.finditer(without_blocks):
        shown = " ".join(code[1].split())
        if _INLINE.match(shown):
            line = without_blocks.count("\n", 0, code.start()) + 1
            for command in split_commands(shown):
                yield ShownCommand(page, line, command, is_block=False)


def shown_on(path: Path) -> list[ShownCommand]:
    """All commands of the page in this file."""
    return list(shown_in(path.relative_to(PROJECT).as_posix(), path.read_text(encoding="utf-8")))
