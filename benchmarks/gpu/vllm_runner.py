"""The arms in one vLLM engine on a GPU: dummy weights, scripted acceptance, engine core in process.

vLLM's synthetic acceptance (`rejection_sample_method="synthetic"`) accepts drafts at given rates,
whatever the models say. The rates of a phase are written into the rejection sampler of Model Runner
V2 while the engine runs. `AdaptiveScheduler` refuses that method, because its output is not the
target's; here the refusal is switched off, and no text is served.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the scheduler is read in process
os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # a function is sent to the worker
os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")  # its rejection sampler is written to

from benchmarks.gpu.engine_kinds import MAX_DRAFT_LENGTH, EngineKind
from benchmarks.gpu.phases import LoadPhase, Turn

_MAX_OUTPUT_TOKENS = 8192
_WARM_UP_STEPS = 20


class VllmRunner:
    """One engine. Use a new process for another one: vLLM gives back its memory only at exit."""

    def __init__(
        self, kind: EngineKind, target: Path, draft: Path | None, *, is_async: bool
    ) -> None:
        """Start the engine; `draft` is None where the target drafts by its own layer."""
        from vllm import LLM

        from paceline.runtime.engine.scheduler import governor_start

        governor_start.refuse_lossy_verification = lambda speculative: None
        self._kind = kind
        self._llm = LLM(**kind.vllm_arguments(target, draft, is_async=is_async))
        self._engine: Any = self._llm.llm_engine
        scheduler: Any = self._engine.engine_core.engine_core.scheduler
        self._governor: Any = getattr(scheduler, "governor", None)
        if kind.is_governed and kind.drafts and self._governor is None:
            raise SystemExit("the engine has no governor; its log says why")
        self._number = 0

    def allowed_lengths(self) -> tuple[int, ...]:
        """See `ArmRunner`."""
        if self._governor is None:
            return (0,)
        allowed = self._governor.state()["allowed_lengths"]
        return tuple(allowed or range(MAX_DRAFT_LENGTH + 1))

    def run(self, arm: str, phase: LoadPhase, num_steps: int, repeat: int) -> Turn:
        """See `ArmRunner`."""
        if self._governor is not None:
            is_fixed = arm.startswith("K=")
            length = int(arm.removeprefix("K=")) if is_fixed else None
            policy = {"policy": arm.removesuffix("+adaptive")}
            self._governor.set({"draft_length": length} if is_fixed else policy)
        if self._kind.drafts:
            survival = [phase.acceptance**depth for depth in range(1, MAX_DRAFT_LENGTH + 1)]
            self._llm.collective_rpc(set_acceptance, args=(survival,))
        names = self._submit(phase)
        produced = dict.fromkeys(names, 0)
        while min(produced.values()) == 0:
            self._step(produced)
        for _ in range(_WARM_UP_STEPS):
            self._step(produced)
        verified, accepted = self._counts()
        before, started_s = sum(produced.values()), time.perf_counter()
        lengths = [self._step(produced) for _ in range(num_steps)]
        seconds = time.perf_counter() - started_s
        now_verified, now_accepted = self._counts()
        self._engine.abort_request(names)
        while self._engine.has_unfinished_requests():
            self._engine.step()
        return Turn(
            arm=arm,
            phase=phase.name,
            repeat=repeat,
            output_tokens=sum(produced.values()) - before,
            seconds=seconds,
            lengths=tuple(lengths),
            verified_tokens=now_verified - verified,
            accepted_tokens=now_accepted - accepted,
        )

    def _counts(self) -> tuple[int, int]:
        """Draft tokens verified and accepted so far; (0, 0) without a governor."""
        if self._governor is None:
            return 0, 0
        state = self._governor.state()
        return state["drafted_tokens_total"], state["accepted_tokens_total"]

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
        if self._governor is not None:
            return int(self._governor._controller.draft_length())
        return MAX_DRAFT_LENGTH if self._kind.drafts else 0


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
