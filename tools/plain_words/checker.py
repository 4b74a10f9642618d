"""Find the words of `words.toml` in prose: docstrings, comments, messages and Markdown.

Pure: text in, findings out. In Python files every comment and string literal is prose, since a
string may reach a log, an error or a terminal; names of code are not. In Markdown, code in fences
and backticks is left out.
"""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Word:
    """A word that is not used here.

    `pattern` matches it between word boundaries; a line that matches one of `allow` may hold it.
    """

    pattern: re.Pattern[str]
    instead: str
    allow: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One use of a forbidden word, or one heading that asks a question."""

    line: int
    found: str
    instead: str


def load_words() -> tuple[Word, ...]:
    """The project's list."""
    text = (resources.files("plain_words") / "words.toml").read_text()
    return tuple(
        Word(
            re.compile(rf"(?<![\w`])(?:{entry['pattern']})(?![\w`])", re.IGNORECASE),
            entry["instead"],
            tuple(re.compile(allowed, re.IGNORECASE) for allowed in entry.get("allow", ())),
        )
        for entry in tomllib.loads(text)["word"]
    )


def check(path: str, text: str, words: Iterable[Word]) -> list[Finding]:
    """All findings in a file, by line. `path` says how to read it: `.py`, `.md` or plain text."""
    if path.endswith(".py"):
        prose, questions = _prose_of_python(text), _question_opening(text)
    elif path.endswith(".md"):
        prose, questions = _prose_of_markdown(text), _question_headings(text)
    else:
        prose, questions = enumerate(text.splitlines(), 1), iter(())
    found = [
        Finding(number, match[0], word.instead)
        for number, line in prose
        for word in words
        for match in word.pattern.finditer(line)
        if not any(allowed.search(line) for allowed in word.allow)
    ]
    return sorted([*found, *questions], key=lambda finding: finding.line)


def _prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def _prose_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "``", line)


def _question_opening(text: str) -> Iterator[Finding]:
    first = text.lstrip().split("\n", 1)[0]
    if re.match(r'r?"""', first) and first.rstrip('"').rstrip().endswith("?"):
        yield Finding(1, first, "a statement of what the module holds")


def _question_headings(text: str) -> Iterator[Finding]:
    for number, line in _prose_of_markdown(text):
        if line.startswith("#") and line.rstrip().endswith("?"):
            yield Finding(number, line, "a heading that states its subject")
