"""Links of the documentation lead to files and headings that exist."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for path in (
        *PROJECT.glob("*.md"),
        *PROJECT.glob("docs/**/*.md"),
        PROJECT / "benchmarks" / "results" / "README.md",
        PROJECT / "src" / "paceline" / "demo" / "models" / "README.md",
    )
)
_LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    """File and anchor of every link that stays in the repository."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for match in _LINK.finditer(text):
        if not re.match(r"[a-z]+:", match[1]):
            file, _, anchor = match[1].partition("#")
            yield file, anchor


@functools.cache
def anchors_of(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(anchors)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for file, anchor in links_of(page):
        target = (page.parent / file).resolve() if file else page
        is_missing = not target.exists()
        if is_missing or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(f"{file}#{anchor}")
    assert not broken


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One, `two`!\n\n## One two\n\n```\n# no\n```\n\n## One two\n")
    assert anchors_of(page) == {"one-two", "one-two-1", "one-two-2"}
