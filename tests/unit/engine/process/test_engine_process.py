"""The errors read from an engine's log, and the environment that a process was started with."""

from __future__ import annotations

import subprocess
import sys

from paceline.runtime.engine.process.engine_process import last_errors, read_environment
from paceline.runtime.engine.process.guard import STOPPED


def test_errors_have_no_prefixes_and_occur_once() -> None:
    text = """\
(APIServer pid=1) INFO 11-21 02:47:59 [entry.py:10] starting
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72]   File "x.py", line 3, in f
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72] ValueError: 32768 tokens do not fit
ValueError: 32768 tokens do not fit
RuntimeError: Engine core initialization failed. See root cause above.
"""
    assert last_errors(text) == ["ValueError: 32768 tokens do not fit"]


def test_errors_include_the_cause_that_pydantic_puts_on_the_next_line() -> None:
    text = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, max_model_len (9) is greater than 8 [type=value_error, input_value=…]
    For further information visit https://errors.pydantic.dev
"""
    assert last_errors(text) == [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "Value error, max_model_len (9) is greater than 8",
    ]


def test_without_errors_the_last_lines_are_returned() -> None:
    assert last_errors("a\n\nb\nc\nd\ne\n") == ["b", "c", "d", "e"]
    assert last_errors("") == []


def test_that_it_was_stopped_is_no_error() -> None:
    assert last_errors(f"the last words\n{STOPPED}\n") == ["the last words"]


def test_the_environment_of_another_process_is_read() -> None:
    given = {"A": "x=y\nz", "B": ""}
    with subprocess.Popen(
        [sys.executable, "-SE", "-c", "print(flush=True); input()"],
        env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        assert read_environment(process.pid) == given
        process.communicate(b"\n")
    assert read_environment(process.pid) is None
