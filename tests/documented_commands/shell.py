"""Split shown shell text into commands: programs, words, redirections.

It knows what the pages use: continuation lines, quotes, comments, `&&`, `|`, `;`, `>`, variables
before a command, and `for … do … done`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_SEPARATORS = frozenset({"&&", "||", "|", ";", "&"})
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=")
_LOOP_WORDS = ("do", "then")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One program with its arguments."""

    words: tuple[str, ...]
    environment: tuple[str, ...] = ()
    """Assignments before the program, such as `PYTHONPATH=tools`."""
    output: str | None = None
    """The file that standard output is written to."""

    @property
    def program(self) -> str:
        """The name without its folder and version: `bin/python3.11` is `python`."""
        return program_of(self.words[0])


def program_of(word: str) -> str:
    """See `ShellCommand.program`."""
    return re.sub(r"^python[\d.]*$", "python", word.rsplit("/", 1)[-1])


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations and open quotes, with the number of the first (from 0).

    Raises `ValueError` if a quote stays open.
    """
    gathered, first = "", 0
    for number, line in enumerate(text.splitlines()):
        if not gathered:
            first = number
        gathered += line
        if gathered.endswith("\\"):
            gathered = gathered[:-1] + " "
        elif _is_open(gathered):
            gathered += "\n"
        else:
            yield first, gathered
            gathered = ""
    if gathered.strip():
        raise ValueError(f"a quote or a continued line has no end: {gathered.strip()}")


def _is_open(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def split_commands(line: str) -> list[ShellCommand]:
    """The commands of one logical line; none for a comment or the lines of a loop."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    groups: list[list[str]] = [[]]
    for token in lexer:
        if token.startswith("#"):
            break
        if token in _SEPARATORS:
            groups.append([])
        else:
            groups[-1].append(token)
    return [command for group in groups if (command := _command(group)) is not None]


def _command(words: list[str]) -> ShellCommand | None:
    while words and words[0] in _LOOP_WORDS:
        words = words[1:]
    if not words or words[0] in ("for", "while", "done", "fi"):
        return None
    environment: list[str] = []
    while words and _ASSIGNMENT.match(words[0]):
        environment.append(words[0])
        words = words[1:]
    output = None
    for sign in (">", ">>"):
        if sign in words:
            at = words.index(sign)
            output = words[at + 1]
            words = [*words[:at], *words[at + 2 :]]
    return ShellCommand(tuple(words), tuple(environment), output) if words else None
