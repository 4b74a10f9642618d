"""The repeats of a swap: each is on disk before the next one, and a resumed run adds the rest."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import draft_swap as module
from benchmarks import results_file
from benchmarks.results_file import read_result
from paceline.foundation.results.source_state import SourceState


@pytest.fixture
def swapped_to(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The drafts that were swapped to; the third repeat of a process is cut off."""
    found: list[str] = []
    gateway = SimpleNamespace(log="log", admin_url="http://a")

    @contextlib.contextmanager
    def start(*_: Any, **__: Any) -> Iterator[Any]:
        yield gateway

    def run(_: Any, arguments: Any, repeat: int) -> dict[str, Any]:
        if found.count(arguments.after) == 2:
            raise KeyboardInterrupt
        found.append(arguments.after)
        failures = ["an answer changed"] if repeat == 1 else []
        names = ("num_failed_requests", "num_compared", "num_changed_answers", "num_near_ties")
        counts = {"num_requests": 10}
        return {
            "before": {}, "after": {}, "failures": failures, "counts": counts,
            **dict.fromkeys(names, 1),
        }  # fmt: skip

    def swap(_: Any, draft: str) -> dict[str, Any]:
        found.append(draft)
        return {"state": "completed"}

    monkeypatch.setattr(module, "start_gateway", start)
    monkeypatch.setattr(module, "drafts", lambda _: ["ngram"])
    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "_swap", swap)
    monkeypatch.setattr(results_file, "source_state", lambda: SourceState("abc", ()))
    return found


def swap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> int:
    words = ["draft_swap.py", "--results", str(tmp_path), "--repeats", "4", *arguments]
    monkeypatch.setattr(sys, "argv", words)
    return module.main()


def test_an_interrupted_run_is_completed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swapped_to: list[str]
) -> None:
    assert swap(monkeypatch, tmp_path) == 130
    [file] = tmp_path.iterdir()
    assert swapped_to == ["auto", "ngram", "auto", "ngram"]
    assert (len(read_result(file)["runs"]), read_result(file)["is_complete"]) == (2, False)
    swapped_to.clear()
    assert swap(monkeypatch, tmp_path, "--resume", str(file)) == 1, "one repeat has failed"
    whole = read_result(file)
    assert swapped_to == ["auto", "ngram", "auto"], "a new server begins with the first draft"
    assert (len(whole["runs"]), whole["is_complete"]) == (4, True)
    assert whole["total"]["failures"] == ["an answer changed"]
    assert whole["total"]["num_requests_during_swap"] == 40
    swapped_to.clear()
    assert swap(monkeypatch, tmp_path, "--resume", str(file)) == 1
    assert swapped_to == []
