"""The log has one line per message, whatever the message quotes."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from paceline.runtime.gateway.process import OneLineFormatter

FORMATTER = OneLineFormatter("paceline: %(levelname)s: %(message)s")


def formatted(message: str, *values: object, exc_info: object = None) -> str:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, message, values, exc_info)  # type: ignore[arg-type]
    return FORMATTER.format(record)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\npaceline: ERROR: forged", "a\\npaceline: ERROR: forged"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x1b[2Jb", "\\x1b[2Jb"),
        ("a\x85b\u2028c", "a\\x85b\\u2028c"),
        ("é 中 \\n", "é 中 \\n"),
    ],
)
def test_control_characters_of_a_quoted_text_are_escaped(text: str, shown: str) -> None:
    assert formatted("replica %s failed", text) == f"paceline: ERROR: replica {shown} failed"


def test_no_line_of_a_traceback_looks_like_an_entry() -> None:
    try:
        raise RuntimeError("a\npaceline: ERROR: forged")
    except RuntimeError as error:
        lines = formatted("it failed", exc_info=(type(error), error, None)).split("\n")
    assert lines[0] == "paceline: ERROR: it failed"
    assert all(line.startswith("    ") for line in lines[1:])


def test_freed_memory_below_a_block_in_use_is_returned() -> None:
    """In a process of its own: what other tests have left in this one would hide it."""
    script = """
import psutil
from paceline.runtime.gateway.process import return_freed_memory
blocks = [bytes([1]) * 20_000 for _ in range(3000)]
last = blocks[-1]
del blocks
full = psutil.Process().memory_info().rss
return_freed_memory()
print(full - psutil.Process().memory_info().rss)
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(answer.stdout) > 40_000_000
