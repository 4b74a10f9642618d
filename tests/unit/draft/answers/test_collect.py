"""The answers on disk: complete, resumable, and refused for anything else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.foundation.models.answers import AnswerFile, AnswerRequest, collect, collect_answers
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import (
    Answer,
    DraftError,
    EncodedPrompt,
    Interrupted,
    Sampling,
)
from unit.draft.conftest import TinyPair

REQUEST = AnswerRequest(
    prompts=[EncodedPrompt(f"k{n}", f"c{n}", (4 + n, 5 + n), 4) for n in range(7)],
    samplings=[Sampling(0.0), Sampling(1.0)],
    stop_ids={1},
    num_after_end=2,
    seed=0,
)


@pytest.fixture(scope="module")
def target(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.float32, torch.device("cpu"))


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "MAX_ROWS", 3)


def open_file(path: Path, request: AnswerRequest = REQUEST) -> AnswerFile:
    return AnswerFile(path, request.header("revision"), request.prompts)


def run(path: Path, load: Any, stop: StopRequest | None = None) -> list[Answer]:
    with draft_progress() as progress:
        return collect_answers(REQUEST, open_file(path), load, progress, stop or StopRequest())


def test_every_prompt_is_answered_under_every_sampling(target: Any, tmp_path: Path) -> None:
    answers = run(tmp_path / "answers.jsonl", lambda: target)
    assert sorted((a.key, a.sampling.temperature) for a in answers) == sorted(
        (f"k{n}", t) for n in range(7) for t in (0.0, 1.0)
    )


def test_more_answers_per_prompt_are_other_draws_and_greedy_has_one(
    target: Any, tmp_path: Path
) -> None:
    request = replace(REQUEST, answers_per_prompt=3, stop_ids=set())
    with draft_progress() as progress:
        file = open_file(tmp_path / "answers.jsonl", request)
        answers = collect_answers(request, file, lambda: target, progress, StopRequest())
    assert Counter((a.key, a.sampling.temperature) for a in answers) == {
        (f"k{n}", t): times for n in range(7) for t, times in ((0.0, 1), (1.0, 3))
    }
    drawn = {(a.key, a.token_ids) for a in answers if a.sampling.temperature}
    assert len(drawn) == 21


def test_complete_answers_are_read_without_the_target(target: Any, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    first = run(path, lambda: target)

    def fail() -> Any:
        raise AssertionError("the target was loaded")

    assert run(path, fail) == first


def test_a_time_as_seed_gives_answers(target: Any, tmp_path: Path) -> None:
    request = replace(REQUEST, seed=20_261_128_093_000)
    with draft_progress() as progress:
        file = open_file(tmp_path / "answers.jsonl", request)
        answers = collect_answers(request, file, lambda: target, progress, StopRequest())
    assert len(answers) == 14


class _StopAfter(StopRequest):
    """Stops after a number of checks, one of which precedes every token."""

    def __init__(self, checks: int) -> None:
        super().__init__()
        self._left = checks

    def raise_if_set(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted


def test_an_interrupted_run_continues_with_the_answers_of_an_uninterrupted_one(
    target: Any, tmp_path: Path
) -> None:
    """Interrupted in the third batch: answers have 4 tokens and 2 after their end, so a batch takes
    6 steps. The line of the second batch is cut off as by a crash."""
    whole = run(tmp_path / "whole.jsonl", lambda: target)
    path = tmp_path / "part.jsonl"
    with pytest.raises(Interrupted):
        run(path, lambda: target, _StopAfter(14))
    assert sorted(open_file(path).batches) == [0, 1]
    path.write_bytes(path.read_bytes()[:-9])
    assert sorted(open_file(path).batches) == [0]
    assert run(path, lambda: target) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"num_after_end": 3}, "num_after_end is 2 there"),
        ({"prompts": REQUEST.prompts[:6]}, "prompts is"),
    ],
)
def test_answers_of_something_else_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    open_file(tmp_path / "answers.jsonl")
    with pytest.raises(DraftError, match=message):
        open_file(tmp_path / "answers.jsonl", replace(REQUEST, **change))


@pytest.mark.parametrize("num_bytes", [0, 1, -1])
def test_a_header_that_was_cut_off_is_written_again(tmp_path: Path, num_bytes: int) -> None:
    """By a crash or a full disk: nothing, one byte, or all but the line break is on disk."""
    path = tmp_path / "answers.jsonl"
    open_file(path)
    header = path.read_bytes()
    path.write_bytes(header[:num_bytes])
    assert open_file(path).batches == {}
    assert path.read_bytes() == header


def test_answers_keep_the_conversations_of_their_prompts(target: Any, tmp_path: Path) -> None:
    """Those that are generated and those that are read."""
    path = tmp_path / "answers.jsonl"
    for answers in (run(path, lambda: target), run(path, lambda: target)):
        assert {(a.key, a.conversation) for a in answers} == {(f"k{n}", f"c{n}") for n in range(7)}


@pytest.mark.parametrize("content", ["not JSON\n", "no line break", '{"a": 1}\ncut'])
def test_a_file_of_another_kind_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(DraftError, match=r"not a file of answers|of another target"):
        open_file(path)
    assert path.read_text() == content
