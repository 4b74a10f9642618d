"""Record what each rank of tensor parallelism samples and drafts, in its own process.

`vary_rules` is injected before vLLM starts. The scheduler runs in the engine host's process, the
ranks in processes that vLLM starts.
"""

from __future__ import annotations

import os
from typing import Any

from losslessness import early_stops

Round = dict[str, list[list[int]]]
"""The tokens "sampled" in one step, and those "drafted" after them, by request."""

_rounds: list[Round] = []
_executors: list[Any] = []


def vary_rules() -> None:
    """As `early_stops.vary_rules`, and every rank records its rounds.

    Ranks are not bound to processors: vLLM would want a NUMA node for each.
    """
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor

    early_stops.vary_rules()
    executor: Any = MultiprocExecutor
    stock = executor._init_executor

    def start(self: Any) -> None:
        stock(self)
        self.collective_rpc(_record)
        _executors.append(self)

    executor._init_executor = start


def take() -> list[list[Round]]:
    """The rounds of each rank since the last call."""
    [executor] = _executors
    rounds: list[list[Round]] = executor.collective_rpc(_take)
    return rounds


def _record(worker: Any) -> None:
    """In the rank."""
    runner = worker.model_runner
    propose, take = runner.propose_draft_token_ids, runner.take_draft_token_ids
    sampled: Any = None

    def note_sampled(scheduler_output: Any, tokens: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal sampled
        sampled = tokens
        return propose(scheduler_output, tokens, *arguments, **named)

    def note_drafted() -> Any:
        taken = take()
        drafted = runner._draft_token_ids
        _rounds.append({"sampled": _listed(sampled), "drafted": _listed(drafted)})
        return taken

    runner.propose_draft_token_ids, runner.take_draft_token_ids = note_sampled, note_drafted


def _take(worker: Any) -> list[Round]:
    taken, _rounds[:] = list(_rounds), []
    return taken


def _listed(tokens: Any) -> list[list[int]]:
    listed: list[list[int]] = tokens if isinstance(tokens, list) else tokens.tolist()
    return listed
