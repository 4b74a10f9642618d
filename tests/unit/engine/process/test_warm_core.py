"""The process from which the engine core is forked."""

from __future__ import annotations

import os
from multiprocessing import forkserver
from typing import Any

import pytest

from paceline.runtime.engine.process import warm_core
from paceline.runtime.engine.process.warm_core import WarmContext


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


def test_what_the_fork_server_imports_and_in_which_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """vLLM first: it sets variables that torch reads. Then, before what takes seconds, what ends
    the server with its parent. The API server's module last, as the main module of a core."""
    found: list[Any] = []
    monkeypatch.setattr(forkserver, "set_forkserver_preload", found.append)
    monkeypatch.setattr(forkserver, "ensure_running", lambda: found.append(dict(os.environ)))
    before = dict(os.environ)
    warm_core._start_fork_server("json.tool")
    imported, during = found
    assert imported == [
        "vllm",
        "paceline.runtime.engine.process.end_with_parent",
        "torch._dynamo",
        "torch._inductor.compile_fx",
        "vllm.v1.worker.cpu_worker",
        "json.tool",
    ]
    assert during["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
    assert during["TORCHINDUCTOR_CPP_DYNAMIC_THREADS"] == "1"
    assert dict(os.environ) == before
