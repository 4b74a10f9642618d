"""Prompts about texts of this machine: the documentation and the metadata of installed packages.

The model summarises, quotes, edits and extracts. Which text is used for what follows from a seed.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

_ABOUT_TEXTS = (
    "Summarize the following text in two sentences.\n\n{text}",
    "Explain this text to a beginner.\n\n{text}",
    "List the main points of this text.\n\n{text}",
    "Write three questions that this text answers, and their answers.\n\n{text}",
)
_COPYING = (
    "Quote the most important sentence of this text, word for word.\n\n{text}",
    "Repeat this text, and correct its spelling where it is wrong.\n\n{text}",
    "Rewrite this text as a bulleted list, with the same words.\n\n{text}",
)
_ABOUT_CODE = (
    "Write a Python function that does the following: {what}",
    "Write a Python function called `{name}`. {what}",
    "How do I do this in Python? {what}",
)
_ABOUT_DATA = (
    "Extract the name, the version and the license of this package as JSON.\n\n{text}",
    "Turn these lines into a JSON object.\n\n{text}",
)
_SENTENCES = re.compile(r"(?<=[.!?]) +")
_MIN_CHARACTERS, _MAX_CHARACTERS = 250, 900


def passages() -> list[str]:
    """Paragraphs of the documentation of installed packages, of prose, each once."""
    found: dict[str, None] = {}
    for distribution in sorted(metadata.distributions(), key=lambda one: one.metadata["Name"]):
        for paragraph in _paragraphs(distribution.read_text("METADATA") or ""):
            found[paragraph] = None
    for path in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.md")):
        for paragraph in _paragraphs(path.read_text(encoding="utf-8", errors="ignore")):
            found[paragraph] = None
    return list(found)


def about_texts(draw: random.Random, texts: list[str], count: int) -> Iterator[str]:
    """Prompts to summarise, explain, quote and edit a passage."""
    for text in draw.sample(texts, min(count, len(texts))):
        yield draw.choice(_ABOUT_TEXTS + _COPYING).format(text=text)


def kind_about_text(prompt: str) -> str:
    """The category of a prompt of `about_texts`."""
    beginnings = tuple(template.partition("{")[0] for template in _COPYING)
    return "quote and edit" if prompt.startswith(beginnings) else "text"


def about_code(draw: random.Random, count: int) -> Iterator[str]:
    """Prompts to write a function, from the beginnings of the standard library's docstrings."""
    found = sorted(_documented_functions())
    for name, what in draw.sample(found, min(count, len(found))):
        yield draw.choice(_ABOUT_CODE).format(name=name, what=what)


def about_data(draw: random.Random, count: int) -> Iterator[str]:
    """Prompts to write JSON from the metadata of a package."""
    keys = ("Name", "Version", "Summary", "License-Expression", "Home-page", "Requires-Python")
    found = sorted({
        "\n".join(f"{key}: {one.metadata[key]}" for key in keys if one.metadata[key])
        for one in metadata.distributions()
    })  # fmt: skip
    for text in draw.choices(found, k=count):
        lines = text.split("\n")
        yield draw.choice(_ABOUT_DATA).format(text="\n".join(draw.sample(lines, len(lines))))


def _paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        paragraph = " ".join(block.split())
        is_prose = paragraph[:1].isalpha() and len(_SENTENCES.split(paragraph)) > 1
        if is_prose and _MIN_CHARACTERS <= len(paragraph) <= _MAX_CHARACTERS:
            yield paragraph


def _documented_functions() -> Iterator[tuple[str, str]]:
    for path in Path(sysconfig.get_paths()["stdlib"]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="ignore"))):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                first = (ast.get_docstring(node) or "").split("\n\n")[0]
                if 40 <= len(first) <= 240:
                    yield node.name, " ".join(first.split())
