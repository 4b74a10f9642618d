"""The process from which the engine core is forked."""

from __future__ import annotations

import os
from typing import Any

import pytest

from paceline.engine.process.warm_core import WarmContext


def report(answers: Any) -> None:
    answers.put((os.environ.get("PACELINE_TEST_LATE"), os.getppid()))


def test_a_fork_has_the_environment_of_the_process_that_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what was set after the fork server had started; the fork server is its parent."""
    context = WarmContext()
    answers = context.SimpleQueue()
    found = []
    for value in ("first", "second"):
        monkeypatch.setenv("PACELINE_TEST_LATE", value)
        process = context.Process(target=report, args=(answers,))
        process.start()
        found.append(answers.get())
        process.join()
    (first, server), (second, same_server) = found
    assert (first, second) == ("first", "second")
    assert server == same_server != os.getpid()
