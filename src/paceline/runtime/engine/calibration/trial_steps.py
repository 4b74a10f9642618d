"""Run steps of invented requests in vLLM's workers, before the engine has real ones.

The scheduler's output of such a step is made here and goes to the executor as the engine core would
send it, so that the duration covers everything from there: messages between processes, the target,
sampling, rejection, and the drafter. It leaves out the scheduler's own work and the handling of the
answers.

An invented request claims that its prompt but for the last token is computed. Nothing is prefilled:
its blocks hold whatever the KV cache holds. The first step computes the last token of the prompt.
Each later step starts from the state after that one: vLLM discards the answer tokens beyond the
number that the scheduler's output states (`GPUModelRunner._update_states`). So any kind of step can
follow any other, no request grows, and a draft model that rests at length 0 misses only tokens that
are discarded: none is backfilled in a measured step.

The scheduler's KV cache is not asked for blocks: it is created after the workers' cache and has
given none away while the scheduler is constructed. Block 0 is vLLM's null block and is not used.

Requests are greedy. Where the draft model samples too (`draft_sample_method` probabilistic),
sampled requests of the bundled pair took 4 to 10 % longer to verify and up to 40 % longer to draft,
at 16 requests on one core. Prompts are random tokens, so that mixtures of experts route as for real
text, and the second half repeats the first, so that n-gram drafters find matches.
"""

from __future__ import annotations

import random
import time
from typing import Any

from paceline.runtime.engine.calibration.plan import EngineLimits
from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.worker.resting_draft import forget_coverage

_PREFIX = "paceline-trial-"
_FIRST_TOKEN_ID = 1
_SEED = 20261129


class VllmTrialSteps:
    """`measuring.TrialSteps` in a real engine; `end` must be called at last, whatever happened."""

    def __init__(self, executor: Any, limits: EngineLimits, *, vocabulary: int) -> None:
        self._executor = executor
        self._limits = limits
        self._last_token_id = max(vocabulary - 1, _FIRST_TOKEN_ID)
        self._random = random.Random(_SEED)
        self._ids: list[str] = []
        self._num_started = 0
        self._context_tokens = 0

    def begin(self, num_requests: int, context_tokens: int) -> None:
        """Replace the trial requests, and compute the last token of each prompt."""
        from vllm.v1.core.sched.output import CachedRequestData, NewRequestData

        finished = set(self._ids)
        first = self._num_started
        self._num_started += num_requests
        self._ids = [f"{_PREFIX}{number}" for number in range(first, self._num_started)]
        self._context_tokens = context_tokens
        blocks_each = self._limits.blocks_of(context_tokens)
        new = [
            NewRequestData(
                req_id=request_id,
                prompt_token_ids=(prompt := self._prompt(context_tokens + 1)),
                mm_features=[],
                sampling_params=_greedy(),
                pooling_params=None,
                block_ids=(list(range(1 + row * blocks_each, 1 + (row + 1) * blocks_each)),),
                num_computed_tokens=context_tokens,
                lora_request=None,
                prefill_token_ids=prompt,
            )
            for row, request_id in enumerate(self._ids)
        ]
        self._run(
            scheduled_new_reqs=new,
            scheduled_cached_reqs=CachedRequestData.make_empty(),
            num_scheduled_tokens=dict.fromkeys(self._ids, 1),
            finished_req_ids=finished,
            draft_length=self._limits.max_draft_length,
        )

    def run(self, verified_tokens: int, draft_length: int) -> float:
        """One step of all trial requests."""
        from vllm.v1.core.sched.output import CachedRequestData

        num_requests = len(self._ids)
        cached = CachedRequestData(
            req_ids=list(self._ids),
            resumed_req_ids=set(),
            new_token_ids=[],
            all_token_ids={},
            new_block_ids=[None] * num_requests,
            num_computed_tokens=[self._context_tokens + 1] * num_requests,
            num_output_tokens=[1] * num_requests,
        )
        return self._run(
            scheduled_cached_reqs=cached,
            num_scheduled_tokens=dict.fromkeys(self._ids, 1 + verified_tokens),
            scheduled_spec_decode_tokens=(
                {one: self._tokens(verified_tokens) for one in self._ids} if verified_tokens else {}
            ),
            draft_length=draft_length,
        )

    def end(self) -> None:
        """Remove the trial requests from the workers, and what the draft model missed of them."""
        from vllm.v1.core.sched.output import SchedulerOutput

        finished, self._ids = set(self._ids), []
        output = SchedulerOutput.make_empty()
        output.finished_req_ids = finished
        self._executor.execute_model(output)
        self._executor.collective_rpc(forget_coverage)

    def _run(
        self,
        *,
        num_scheduled_tokens: dict[str, int],
        draft_length: int,
        **fields: Any,
    ) -> float:
        from vllm.v1.core.sched.output import SchedulerOutput

        output = SchedulerOutput.make_empty()
        output.num_scheduled_tokens = num_scheduled_tokens
        output.total_num_scheduled_tokens = sum(num_scheduled_tokens.values())
        output.num_spec_tokens_to_schedule = draft_length
        for name, value in fields.items():
            setattr(output, name, value)
        started_s = time.perf_counter()
        if self._executor.execute_model(output) is None:
            self._executor.sample_tokens(None)
        self._executor.take_draft_token_ids()
        return time.perf_counter() - started_s

    def _prompt(self, num_tokens: int) -> list[int]:
        half = self._tokens(-(-num_tokens // 2))
        return (half + half)[:num_tokens]

    def _tokens(self, num_tokens: int) -> list[int]:
        return [
            self._random.randint(_FIRST_TOKEN_ID, self._last_token_id) for _ in range(num_tokens)
        ]


def misfit_of_workers(executor: Any) -> str:
    """Return how the workers' vLLM differs from what trial steps need; empty if it does not."""
    return next(filter(None, executor.collective_rpc(_misfit)), "")


def _misfit(worker: object) -> str:
    return unfit_for("trial_steps", check_hooks("trial_steps"))


def _greedy() -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=0.0, ignore_eos=True)
