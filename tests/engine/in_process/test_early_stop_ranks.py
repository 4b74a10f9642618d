"""What each rank of tensor parallelism does while drafts may end early, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from paceline.runtime.engine.compat.executor import patch_workers
from paceline.runtime.engine.compat.wrapping import mark_of
from paceline.runtime.engine.worker import early_stop
from paceline.runtime.engine.worker.draft_orders import DraftOrder
from paceline.runtime.governor.values import DraftRule

pytestmark = pytest.mark.engine

# The first token is sure and worth another pass, which is worth a third one only to a sure token.
RULE = DraftRule({"greedy": (0.0, 1.0)}, 0.2, (0.5, 0.5, 0.5))
SURE = torch.tensor([[50.0, 0.0, 0.0]])
UNSURE = torch.tensor([[0.0, 0.0, 0.0]])
TOKEN = torch.tensor([0])


@dataclass
class Group:
    """vLLM's group of ranks; the answer of the first rank is `given`, or its own."""

    rank_in_group: int
    given: bool = True
    device: str = "cpu"
    answers: list[bool] = field(default_factory=list)

    def broadcast(self, tensor: torch.Tensor, src: int) -> torch.Tensor:
        if self.rank_in_group != src:
            tensor = torch.tensor([self.given])
        self.answers.append(bool(tensor.item()))
        return tensor


def passes_of(
    monkeypatch: pytest.MonkeyPatch, group: Group | None, rule: DraftRule = RULE, **batch: Any
) -> early_stop._StepPasses:
    monkeypatch.setattr(early_stop, "_tensor_parallel_group", lambda: group)
    runner = SimpleNamespace(
        input_batch=SimpleNamespace(**{"req_ids": ["a"], "req_id_to_index": {"a": 0}} | batch),
        discard_request_mask=SimpleNamespace(np=np.zeros(4, dtype=bool)),
    )
    order = DraftOrder(rule, classes={"a": "greedy"}, caps={})
    return early_stop._StepPasses(runner, order, max_passes=4)


@pytest.mark.parametrize("group", [None, Group(0)])
@pytest.mark.parametrize(("logits", "wants_more"), [(SURE, True), (UNSURE, False)])
def test_the_first_rank_decides_by_its_confidences(
    monkeypatch: pytest.MonkeyPatch, group: Group | None, logits: Any, wants_more: bool
) -> None:
    passes = passes_of(monkeypatch, group)
    passes.add_pass(TOKEN, None, logits)
    assert passes.wants_more() is wants_more
    report = passes.report()
    assert report is not None
    assert report.confidences is not None
    assert report.confidences.shape == (1, 1)


@pytest.mark.parametrize("given", [True, False])
def test_other_ranks_follow_the_first_one(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """They compute no confidences, so nothing of ours can fail there."""
    passes = passes_of(monkeypatch, Group(1, given))
    passes.add_pass(TOKEN, None, "no logits")
    assert passes.wants_more() is given
    assert passes.report() is None


@pytest.mark.parametrize("fault", ["no logits", None])
def test_after_an_error_the_first_rank_lets_all_draft_on(
    monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """The other ranks wait for its answer, so it still gives one."""
    group = Group(0)
    passes = passes_of(monkeypatch, group)
    for _ in range(2):
        passes.add_pass(TOKEN, None, fault)
        assert passes.wants_more()
    assert group.answers == [True, True]
    report = passes.report()
    assert report is not None
    assert report.confidences is None
    assert report.failure


def test_an_error_at_the_start_of_a_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order names a request that this rank does not know."""
    passes = passes_of(monkeypatch, Group(0), req_ids=["a", "b", "c", "d", "e"])
    passes.add_pass(TOKEN, None, SURE)
    assert passes.wants_more()
    report = passes.report()
    assert report is not None
    assert report.failure


def test_the_proposal_keeps_the_probabilities_of_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = passes_of(monkeypatch, None)
    first, second = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.1, 0.8, 0.1]])
    passes.add_pass(torch.tensor([2]), first, None)
    passes.add_pass(torch.tensor([1]), second, None)
    token_ids, probs = passes.proposal()
    assert token_ids.tolist() == [[2, 1]]
    assert torch.equal(probs, torch.stack([first, second], dim=1))
    report = passes.report()
    assert report is not None
    assert report.confidences == pytest.approx(np.array([[0.5, 0.8]]))


class Drafter:
    """A drafter whose `propose` is wrapped."""

    def propose(self) -> None:
        """Proposes nothing."""


class OwnDrafter(Drafter):
    """One that chooses its tokens itself."""

    def _greedy_sample(self) -> None:
        """Chooses nothing."""


class Runner:
    def take_draft_token_ids(self) -> None:
        """Hands over nothing."""


for wrapped in (Drafter.propose, Runner.take_draft_token_ids):
    setattr(wrapped, mark_of("early_stop"), True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"method": "mtp"}, ""),
        ({"method": "ngram"}, "ngram does not draft token by token"),
        ({"parallel_drafting": True}, "draft_model does not draft token by token"),
        ({"drafter": OwnDrafter()}, "OwnDrafter drafts in a way of its own"),
        ({"async_scheduling": True}, "asynchronous scheduling"),
        ({"use_heterogeneous_vocab": True}, "are not computed"),
        ({"use_local_argmax_reduction": True}, "are not computed"),
        ({"runner": object}, "not wrapped"),
    ],
)
def test_what_cannot_report_is_refused_in_words(changes: dict[str, Any], why: str) -> None:
    settings = SimpleNamespace(
        **{
            "method": "draft_model",
            "parallel_drafting": False,
            "use_heterogeneous_vocab": False,
            "use_local_argmax_reduction": False,
            "async_scheduling": False,
            "drafter": Drafter(),
            "runner": Runner,
        }
        | changes
    )
    runner = settings.runner()
    if isinstance(runner, Runner):
        config = SimpleNamespace(speculative_config=settings, scheduler_config=settings)
        vars(runner).update(vllm_config=config, drafter=settings.drafter)
    found = early_stop.why_not_in_worker(SimpleNamespace(model_runner=runner))
    assert (why in found) if why else found == ""


def test_workers_that_cannot_be_asked_report_nothing() -> None:
    class Executor:
        def collective_rpc(self, method: Any) -> list[Any]:
            raise RuntimeError("planted")

    assert patch_workers(None, early_stop.why_not_in_worker)
    assert patch_workers(Executor(), early_stop.why_not_in_worker) == "planted"
