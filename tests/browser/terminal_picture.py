"""A picture of what a command prints, as a dark terminal shows it: rich's SVG in Chromium."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from browser.chromium import Chromium

COLUMNS = 110
"""Wide enough for every column of `paceline top`."""
WIDTH = 1100
"""Of the picture in pixels."""
_WITHIN_S = 60.0
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts of another host: every machine has a monospace one."""
_PAGE = "<!doctype html><meta charset=utf-8><style>body {{ margin: 0 }}</style>{svg}"
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


async def run_in_terminal(*arguments: str) -> str:
    """What `paceline` with these arguments prints on a terminal with colours, escapes included."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from paceline.cli import main; main(prog_name='paceline')"),
        *arguments,
        env={
            **os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "COLORTERM": "truecolor",
            "TERM": "xterm-256color",
        },
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(_WITHIN_S):
        printed, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"paceline {' '.join(arguments)} ended with {process.returncode}")
    return printed.decode()


def render_terminal(printed: str, title: str, prompt: Sequence[str]) -> tuple[str, float]:
    """A page with the text in a dark window, and its height over its width.

    `prompt` is the command line that is shown above it.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.assemble(("$ ", "green"), (" ".join(prompt), "bold")))
    console.print(Text.from_ansi(printed), no_wrap=True, crop=True)
    svg = console.export_svg(title=title, code_format=_FORMAT, unique_id="terminal")
    size = _SIZE.search(svg)
    assert size is not None
    return _PAGE.format(svg=svg), float(size[2]) / float(size[1])


async def picture_of_top(browser: Chromium, admin_url: str, folder: Path) -> bytes:
    """`paceline top` of this server now, as a PNG."""
    printed = await run_in_terminal("top", admin_url, "--once")
    text, ratio = render_terminal(printed, "paceline top", ("paceline", "top"))
    file = folder / "terminal.html"
    file.write_text(text, encoding="utf-8")
    async with browser.page() as page:
        await page.open(file.as_uri(), width=WIDTH, height=round(WIDTH * ratio))
        return await page.screenshot()
