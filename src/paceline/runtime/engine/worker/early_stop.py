"""End drafting as soon as another pass of the draft model is not worth its time.

In a step with a `DraftOrder`, the confidences of each pass go to a `DraftingRound`. When that wants
no more, an exception leaves vLLM's loop over the passes, and the tokens drawn so far are the
proposal. The probabilities they were drawn from are kept with them, so that rejection sampling
stays exact. The confidences return to the scheduler, which chooses how many tokens of each request
are verified.

For drafters that draft token by token through `SpecDecodeBaseProposer`, under synchronous
scheduling: drafts of asynchronous steps have a fixed length. With tensor parallelism the first rank
decides for all: ranks that disagreed would wait for one another forever. For the same reason an
error in this code ends no step: all ranks then draft to the planned length, the report says why,
and the scheduler orders no more.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from paceline.runtime.engine.compat.wrapping import Wrappers, is_wrapped
from paceline.runtime.engine.worker.draft_orders import ORDER, REPORT, DraftOrder, DraftReport
from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.drafting.drafting_round import DraftingRound

logger = logging.getLogger("vllm.paceline.early_stop")

_PART = "early_stop"
_PASSES = "_paceline_passes"
"""On the drafter, while it drafts by an order: its `_StepPasses`."""
_REPORT = "_paceline_draft_report"
"""On the runner, until the draft tokens are taken: the `DraftReport`."""
_METHODS = ("draft_model", "eagle", "eagle3", "mtp")


def why_not_in_worker(worker: Any) -> str:
    """In the worker: return why it cannot report confidences and end drafts early; "" if it can."""
    runner = worker.model_runner
    if not is_wrapped(getattr(type(runner), "take_draft_token_ids", None), _PART):
        return "this model runner is not wrapped"
    config, drafter = runner.vllm_config.speculative_config, type(runner.drafter)
    reasons = {
        f"{config.method} does not draft token by token": (
            config.method not in _METHODS or config.parallel_drafting
        ),
        f"{drafter.__name__} drafts in a way of its own": (
            not is_wrapped(getattr(drafter, "propose", None), _PART)
            or "_greedy_sample" in vars(drafter)
        ),
        "drafts have a fixed length under asynchronous scheduling": (
            runner.vllm_config.scheduler_config.async_scheduling
        ),
        "the draft model's probabilities over the target's vocabulary are not computed": (
            config.use_heterogeneous_vocab or config.use_local_argmax_reduction
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


class _DraftingEndedError(Exception):
    """Leaves vLLM's loop over the passes. Never leaves `propose`."""


class _StepPasses:
    """The passes of one step on one rank."""

    def __init__(self, runner: Any, order: DraftOrder, max_passes: int) -> None:
        self._max_passes = max_passes
        self._group = _tensor_parallel_group()
        self._round: DraftingRound | None = None
        self._token_ids: list[Any] = []
        self._probs: list[Any] = []
        self._confidences: list[Floats] = []
        self._failure = ""
        if self._group is None or self._group.rank_in_group == 0:
            with self._noting_failure():
                self._round = _start_round(runner, order, max_passes)

    def add_pass(self, token_ids: Any, probs: Any, logits: Any) -> None:
        """Note a pass: tokens (num_requests,), and the probabilities that they were drawn from,
        (num_requests, vocabulary), or else the logits of which they have the largest."""
        self._token_ids.append(token_ids)
        self._probs.append(probs)
        if self._round is not None and not self._failure:
            with self._noting_failure():
                confidences = confidences_of(probs, logits).numpy()
                self._confidences.append(confidences)
                self._round.add_pass(confidences)

    def wants_more(self) -> bool:
        """Whether the ranks run another pass; waits for the first rank's answer."""
        if len(self._token_ids) >= self._max_passes:
            return True  # vLLM's loop ends by itself
        wants_more = True
        if self._round is not None and not self._failure:
            with self._noting_failure():
                wants_more = self._round.wants_more()
        if self._group is None:
            return wants_more
        import torch

        answer = torch.tensor([wants_more], dtype=torch.uint8, device=self._group.device)
        return bool(self._group.broadcast(answer, src=0).item())

    def proposal(self) -> tuple[Any, Any]:
        """Tokens (num_requests, num_passes), and their probabilities, (num_requests, num_passes,
        vocabulary), or None where vLLM keeps none."""
        import torch

        probs = None if self._probs[0] is None else torch.stack(self._probs, dim=1).contiguous()
        return torch.stack(self._token_ids, dim=1), probs

    def report(self) -> DraftReport | None:
        """What the scheduler learns; None where nothing was drafted, and on other ranks."""
        if self._failure:
            return DraftReport(None, self._failure)
        return DraftReport(np.stack(self._confidences, axis=1)) if self._confidences else None

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logger.exception("Paceline: drafts no longer end early until the engine restarts")
            self._failure = f"{type(error).__name__}: {error}"


def confidences_of(probs: Any, logits: Any) -> Any:
    """The largest probability of each request's distribution, (num_requests,), on their device.

    Both arguments have shape (num_requests, vocabulary). `probs` is None where the likeliest token
    is taken; the logits give its probability at temperature 1.
    """
    if probs is None:
        probs = logits.float().softmax(dim=-1)  # half the time of the logarithm of the sum
    return probs.amax(dim=-1)


def _start_round(runner: Any, order: DraftOrder, max_passes: int) -> DraftingRound:
    """Requests whose token is discarded, because their prompt is incomplete, count for nothing."""
    batch = runner.input_batch
    request_ids = batch.req_ids
    limits = np.full(len(request_ids), max_passes)
    for request_id, cap in order.caps.items():
        limits[batch.req_id_to_index[request_id]] = cap
    limits[runner.discard_request_mask.np[: len(request_ids)]] = 0
    return DraftingRound(order.rule, [order.classes.get(name, "") for name in request_ids], limits)


def _tensor_parallel_group() -> Any:
    """The group whose ranks draft together; None for a single rank."""
    from vllm.distributed.parallel_state import get_tp_group

    group = get_tp_group()
    return None if group.world_size == 1 else group


def _sample_draft_tokens(stock: Any, drafter: Any, *arguments: Any) -> Any:
    """Draw the tokens of one pass, and leave the loop over the passes if no more are wanted."""
    passes: _StepPasses | None = getattr(drafter, _PASSES, None)
    if passes is None:
        return stock(drafter, *arguments)
    with _logits_kept(drafter.model) as logits:
        token_ids, probs = stock(drafter, *arguments)
    passes.add_pass(token_ids, probs, logits[-1] if logits else None)
    if not passes.wants_more():
        raise _DraftingEndedError
    return token_ids, probs


@contextlib.contextmanager
def _logits_kept(model: Any) -> Iterator[list[Any]]:
    """Keep what the draft model's output layer computes in the block."""
    compute_logits = model.compute_logits
    kept: list[Any] = []

    def compute_and_keep(*arguments: Any, **named: Any) -> Any:
        kept.append(compute_logits(*arguments, **named))
        return kept[-1]

    model.compute_logits = compute_and_keep
    try:
        yield kept
    finally:
        model.compute_logits = compute_logits


def _propose(stock: Any, drafter: Any, *arguments: Any, **named: Any) -> Any:
    """Run vLLM's loop over the passes; where it was left, the tokens until then are proposed."""
    try:
        return stock(drafter, *arguments, **named)
    except _DraftingEndedError:
        token_ids, drafter._last_draft_probs = getattr(drafter, _PASSES).proposal()
        return token_ids


def _propose_by_order(
    stock: Any, runner: Any, scheduler_output: Any, *arguments: Any, **named: Any
) -> Any:
    """Propose the drafts of a step, by its order if it has one."""
    order = getattr(scheduler_output, ORDER, None)
    if order is None:
        return stock(runner, scheduler_output, *arguments, **named)
    passes = _StepPasses(runner, order, scheduler_output.num_spec_tokens_to_schedule)
    setattr(runner.drafter, _PASSES, passes)
    try:
        return stock(runner, scheduler_output, *arguments, **named)
    finally:
        delattr(runner.drafter, _PASSES)
        setattr(runner, _REPORT, passes.report())


def _take_with_report(stock: Any, runner: Any) -> Any:
    """Hand the drafts to the scheduler, with the report."""
    drafts = stock(runner)
    report = vars(runner).pop(_REPORT, None)
    if drafts is not None and report is not None:
        setattr(drafts, REPORT, report)
    return drafts


_PROPOSER = "vllm.v1.spec_decode.llm_base_proposer:SpecDecodeBaseProposer"
_RUNNER = "vllm.v1.worker.gpu_model_runner:GPUModelRunner"
WRAPPERS = Wrappers(
    _PART,
    {
        f"{_PROPOSER}._sample_draft_tokens": _sample_draft_tokens,
        f"{_PROPOSER}.propose": _propose,
        f"{_RUNNER}.propose_draft_token_ids": _propose_by_order,
        f"{_RUNNER}.take_draft_token_ids": _take_with_report,
    },
    otherwise="Drafts do not end early, and all are verified.",
)
