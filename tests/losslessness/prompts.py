"""Prompts for the checks: pieces of the standard library of the running Python."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_FILES = ("textwrap", "shlex", "heapq", "bisect", "fnmatch", "csv", "queue", "string", "glob")
_LINES_PER_PROMPT = 12


def stdlib_prompts(num_prompts: int) -> list[str]:
    """`num_prompts` different pieces of twelve lines each; the same ones on every call."""
    folder = Path(sysconfig.get_path("stdlib"))
    pieces: list[list[str]] = []
    for name in _FILES:
        lines = (folder / f"{name}.py").read_text(encoding="utf-8").splitlines(keepends=True)
        pieces.append(
            [
                "".join(lines[start : start + _LINES_PER_PROMPT])
                for start in range(0, len(lines) - _LINES_PER_PROMPT, _LINES_PER_PROMPT)
            ]
        )
    # One piece of each file in turn, so that a few prompts are already of several kinds.
    rounds = [[p[i] for p in pieces if i < len(p)] for i in range(max(map(len, pieces)))]
    prompts = [prompt for taken in rounds for prompt in taken]
    if len(prompts) < num_prompts:
        raise ValueError(f"{num_prompts} prompts requested; there are {len(prompts)}")
    return prompts[:num_prompts]
