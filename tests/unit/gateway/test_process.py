"""The log has one line per message, whatever the message quotes."""

from __future__ import annotations

import logging

import pytest

from paceline.gateway.process import OneLineFormatter

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
