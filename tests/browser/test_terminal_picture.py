"""The picture of a terminal: what was printed, in its colours, with nothing from other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.chromium import Page
from browser.terminal_picture import WIDTH, render_terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_terminal_is_drawn_as_printed(page: Page, tmp_path: Path) -> None:
    printed = "\x1b[1;31mdown\x1b[0m <b>not markup</b> ▁▄█\n" + "x" * 300
    text, ratio = render_terminal(printed, "title", ("paceline", "top"))
    file = tmp_path / "terminal.html"
    file.write_text(text, encoding="utf-8")
    await page.open(file.as_uri(), width=WIDTH, height=round(WIDTH * ratio))
    drawn = await page.evaluate("document.querySelector('svg').textContent")
    style = await page.evaluate(
        "[...document.querySelectorAll('text')].filter(one => one.textContent === 'down')"
        ".map(one => getComputedStyle(one).fontWeight + ' ' + getComputedStyle(one).fill)"
    )
    width = await page.evaluate("document.querySelector('svg').getBoundingClientRect().width")
    plain = drawn.replace("\xa0", " ")
    assert "<b>not markup</b> ▁▄█" in plain
    assert "$ paceline top" in plain
    assert style == ["700 rgb(204, 85, 90)"]
    assert round(width) == WIDTH
    assert page.requests == [file.as_uri()]
    assert "cdnjs" not in text
