"""Compare the documents with their claims, and find numbers that no claim covers."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.claims import documents
from benchmarks.claims.claim import Claim, DocumentClaims, ReadResult, normalize
from benchmarks.results_file import read_result

ROOT = Path(__file__).resolve().parents[2]
_SUMMARY = "docs/experiments/README.md"
"""Repeats figures of other pages without linking their raw results; guarded anyway."""
LEDGER = "docs/claims.md"
"""Generated from the claims (`page`), so it is not checked against them."""
_RESULT_LINK = re.compile(r"\]\([^)\s]*benchmarks/results/[^)\s]+\.json(?:\.gz)?\)")
_NO_FIGURES = re.compile(r"`[^`]*`|\]\([^)\s]*\)|^#+ .*$", re.MULTILINE)
"""Code, link targets and headings: numbers in them are names."""
_NUMBER = re.compile(r"(?<![\w=/.,])(?<![A-Za-z]-)\d+(?:[.,]\d+)*(?!\w)")
"""A number of its own: not the 8 of `K=8`, of `p8` or of `8B`."""


@dataclass(frozen=True, slots=True)
class Section:
    """The text from one heading to the next, normalized."""

    text: str
    links_result: bool


def find_all_problems(
    root: Path = ROOT, read: ReadResult | None = None, only: str | None = None
) -> list[str]:
    """Every problem in README.md and docs/, or in the document `only`, as one line each."""
    reader = read or read_from(root)
    by_document = {module.DOCUMENT: module for module in load_modules()}
    paths = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    problems = [
        f"{document}: has claims in benchmarks/claims/documents, but does not exist"
        for document in by_document
        if not (root / document).is_file()
    ]
    for path in paths:
        document = path.relative_to(root).as_posix()
        if document != LEDGER and (only is None or document == only):
            module = by_document.get(document)
            found = find_problems(
                path.read_text(encoding="utf-8"),
                list(module.claims(reader)) if module else [],
                module.NOT_MEASURED if module else {},
                guards_all=document == _SUMMARY,
            )
            problems += [f"{document}: {problem}" for problem in found]
    return problems


def load_modules() -> list[DocumentClaims]:
    """The modules of `documents/`."""
    names = [module.name for module in pkgutil.iter_modules(documents.__path__)]
    return [importlib.import_module(f"{documents.__name__}.{name}") for name in names]  # type: ignore[misc]


def read_from(root: Path) -> ReadResult:
    """A reader of the raw results in this checkout, each read once."""

    @functools.cache
    def read(name: str) -> Mapping[str, Any]:
        return read_result(root / "benchmarks/results" / name)

    return read


def find_problems(
    text: str,
    claims: Sequence[Claim],
    not_measured: Mapping[str, tuple[str, ...]],
    guards_all: bool = False,
) -> list[str]:
    """The problems of one document.

    They are claims that it does not print, texts of `not_measured` that it does not contain, and
    numbers that neither covers in sections that link a raw result; with `guards_all`, in all
    sections.
    """
    sections = list(split_sections(text))
    covered: list[set[int]] = [set() for _ in sections]
    problems = [
        f"does not print what the raw result gives: {one.render()}"
        for one in claims
        if not _cover(sections, covered, list(one.pieces()))
    ]
    problems += [
        f"does not contain this text of NOT_MEASURED: {fragment}"
        for group in not_measured.values()
        for fragment in group
        if not _cover(sections, covered, [(normalize(fragment), True)])
    ]
    for section, positions in zip(sections, covered, strict=True):
        if section.links_result or guards_all:
            problems += list(_uncovered(section.text, positions))
    return problems


def split_sections(text: str) -> Iterator[Section]:
    """Split at headings; code, link targets and headings are left out."""
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        links_result = bool(_RESULT_LINK.search(part))
        yield Section(normalize(_NO_FIGURES.sub(_blank, part)), links_result)


def _blank(found: re.Match[str]) -> str:
    return "`\u2026`" if found[0].startswith("`") else "]" if found[0].startswith("]") else ""


def _cover(
    sections: Sequence[Section], covered: Sequence[set[int]], pieces: Sequence[tuple[str, bool]]
) -> bool:
    """Mark the computed pieces wherever this text occurs; returns whether it occurs."""
    printed = _without_names("".join(text for text, _ in pieces))
    found = False
    for section, positions in zip(sections, covered, strict=True):
        start = section.text.find(printed)
        while start >= 0:
            found = True
            at = start
            for text, is_figure in pieces:
                length = len(_without_names(text))
                if is_figure:
                    positions.update(range(at, at + length))
                at += length
            start = section.text.find(printed, start + 1)
    return found


def _without_names(text: str) -> str:
    return _NO_FIGURES.sub(_blank, text)


def _uncovered(text: str, positions: set[int]) -> Iterator[str]:
    for number in _NUMBER.finditer(text):
        if not positions.issuperset(range(*number.span())):
            around = text[max(number.start() - 40, 0) : number.end() + 30].strip()
            yield f"no claim covers {number[0]} in: \u2026{around}\u2026"
