"""The arms in one vLLM engine on a GPU: dummy weights, scripted acceptance, engine core in process.

vLLM's synthetic acceptance (`rejection_sample_method="synthetic"`) accepts drafts at given rates,
whatever the models say. The rates of a phase are written into the rejection sampler of Model Runner
V2 while the engine runs. `AdaptiveScheduler` refuses that method, because its output is not the
target's; here the refusal is switched off, and no text is served. The arms `none` and the others
need two engines, so each runner is one process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the scheduler is read in process
os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # a function is sent to the worker

from benchmarks.gpu.phases import LoadPhase, Turn
from paceline.engine.compat.length_table import lengths_to_name, render_length_table

_MAX_OUTPUT_TOKENS = 8192
_WARM_UP_STEPS = 20


class VllmRunner:
    """One engine. Use a new process for another one: vLLM gives back its memory only at exit."""

    def __init__(
        self,
        target: Path,
        draft: Path | None,
        *,
        max_draft_length: int,
        max_num_seqs: int,
        is_async: bool,
        method: str = "draft_model",
    ) -> None:
        """Start the engine; `draft` is None for one without speculation.

        `method` is vLLM's: draft_model, eagle, mtp, … with a draft of the fitting shape.
        """
        from vllm import LLM

        from paceline.engine.scheduler import governor_start

        governor_start.refuse_lossy_verification = lambda speculative: None
        speculative: dict[str, Any] | None = None
        if draft is not None:
            table = render_length_table(lengths_to_name(max_draft_length), max_num_seqs)
            speculative = {
                "method": method,
                "model": str(draft),
                "num_speculative_tokens": max_draft_length,
                "num_speculative_tokens_per_batch_size": table,
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": [0.5**n for n in range(1, max_draft_length + 1)],
            }
        self._max_draft_length = max_draft_length
        self._llm = LLM(
            model=str(target),
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=16_384,
            max_num_seqs=max_num_seqs,
            enable_prefix_caching=False,
            async_scheduling=is_async,
            speculative_config=speculative,
            scheduler_cls="paceline.engine.AdaptiveScheduler",
        )
        self._engine: Any = self._llm.llm_engine
        self._governor: Any = self._engine.engine_core.engine_core.scheduler.governor
        self._number = 0

    def allowed_lengths(self) -> tuple[int, ...]:
        """See `ArmRunner`."""
        if self._governor is None:
            return (0,)
        allowed = self._governor.state()["allowed_lengths"]
        return tuple(allowed or range(self._max_draft_length + 1))

    def run(self, arm: str, phase: LoadPhase, num_steps: int, repeat: int) -> Turn:
        """See `ArmRunner`."""
        if self._governor is not None:
            is_fixed = arm.startswith("K=")
            length = int(arm.removeprefix("K=")) if is_fixed else None
            self._governor.set({"draft_length": length} if is_fixed else {"policy": arm})
            survival = [phase.acceptance**depth for depth in range(1, self._max_draft_length + 1)]
            self._llm.collective_rpc(set_acceptance, args=(survival,))
        names = self._submit(phase)
        produced = dict.fromkeys(names, 0)
        while min(produced.values()) == 0:
            self._step(produced)
        for _ in range(_WARM_UP_STEPS):
            self._step(produced)
        before, started_s = sum(produced.values()), time.perf_counter()
        lengths = [self._step(produced) for _ in range(num_steps)]
        seconds = time.perf_counter() - started_s
        self._engine.abort_request(names)
        while self._engine.has_unfinished_requests():
            self._engine.step()
        return Turn(
            arm, phase.name, repeat, sum(produced.values()) - before, seconds, tuple(lengths)
        )

    def _submit(self, phase: LoadPhase) -> list[str]:
        from vllm import SamplingParams

        parameters = SamplingParams(
            temperature=0.0, max_tokens=_MAX_OUTPUT_TOKENS, ignore_eos=True, detokenize=False
        )
        names = []
        for index in range(phase.num_requests):
            self._number += 1
            names.append(f"r{self._number}")
            prompt = [3 + (7 * index + token) % 1000 for token in range(phase.context_tokens)]
            self._engine.add_request(names[-1], {"prompt_token_ids": prompt}, parameters)
        return names

    def _step(self, produced: dict[str, int]) -> int:
        """One step; counts the output so far per request, and returns the draft length."""
        for output in self._engine.step():
            if output.request_id in produced:
                produced[output.request_id] = len(output.outputs[0].token_ids)
        return 0 if self._governor is None else int(self._governor.state()["draft_length"])


def set_acceptance(worker: Any, survival: list[float]) -> None:
    """In the worker: accept drafts at these rates, (max_draft_length,), from the next step on.

    `survival`: per position, the chance that it and all before it are accepted.
    """
    sampler = worker.model_runner.rejection_sampler
    rates = sampler.synthetic_conditional_rates
    conditional, before = [], 1.0
    for chance in survival:
        conditional.append(chance / before if before else 0.0)
        before = chance
    rates.copy_(rates.new_tensor(conditional))
