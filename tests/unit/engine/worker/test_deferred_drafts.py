"""Drafts are made when the engine asks for them, on a fake model runner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.runtime.engine.worker import deferred_drafts
from paceline.runtime.engine.worker.deferred_drafts import _defer, _draft_and_take

SAMPLED = torch.tensor([[5], [6]])
DRAFTS = torch.tensor([[1, 2], [3, 4]])
STEP = SimpleNamespace(name="the scheduler's output")


class Runner:
    """What the wrappers use of vLLM's, and in which order things happened."""

    vllm_config = kv_cache_config = None

    def __init__(self) -> None:
        self.input_batch = SimpleNamespace(req_ids=["a", "b"])
        self.happened: list[Any] = []
        self._draft_token_ids: Any = None

    def propose(self, step: Any, sampled: Any, *others: Any, **named: Any) -> Any:
        self.happened.append(("drafted", step, others, named, torch.is_inference_mode_enabled()))
        return DRAFTS

    def _copy_draft_token_ids_to_cpu(self, step: Any) -> None:
        self.happened.append(("copied", step))

    def take(self) -> Any:
        self.happened.append("taken")
        return self._draft_token_ids


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Of a draft model that rests."""
    monkeypatch.setattr(deferred_drafts, "drafter_rests", lambda *configs: True)
    return Runner()


def propose(runner: Runner, sampled: Any = SAMPLED) -> Any:
    return _defer(Runner.propose, runner, STEP, sampled, "hidden states", slots="slots")


def test_drafts_are_made_when_they_are_taken(runner: Runner) -> None:
    assert propose(runner) == [[], []]
    assert runner.happened == []
    assert _draft_and_take(Runner.take, runner) is DRAFTS
    assert runner.happened == [
        ("drafted", STEP, ("hidden states",), {"slots": "slots"}, True),
        ("copied", STEP),
        "taken",
    ]


def test_drafts_are_made_once(runner: Runner) -> None:
    propose(runner)
    for _ in range(2):
        _draft_and_take(Runner.take, runner)
    assert runner.happened[2:] == ["taken", "taken"]


def test_tokens_that_the_scheduler_shortens_are_drafted_from_at_once(runner: Runner) -> None:
    assert propose(runner, [[5], [6]]) is DRAFTS


def test_where_the_draft_model_does_not_rest_nothing_waits(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_drafts, "drafter_rests", lambda *configs: False)
    assert propose(runner) is DRAFTS
    _draft_and_take(Runner.take, runner)
    assert runner.happened[1:] == ["taken"]
