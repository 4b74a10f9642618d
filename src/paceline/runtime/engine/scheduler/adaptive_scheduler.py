"""The vLLM scheduler whose draft length a policy chooses, for --scheduler-cls.

    vllm serve TARGET --speculative-config '{…, "num_speculative_tokens": 8}' \\
        --scheduler-cls paceline.engine.AdaptiveScheduler

vLLM takes one class name for synchronous and asynchronous scheduling; `AdaptiveScheduler` creates
the one that the configuration asks for. This module overrides methods of vLLM's scheduler;
`governor_driver` and `prefill_pacing` do the work. At the start it also checks the kernels of the
linear layers, and may forbid white space in JSON (`compact_json`).
"""

from __future__ import annotations

import logging
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from paceline.runtime.engine.compat.executor import find_executor
from paceline.runtime.engine.compat.linear_kernels import check_kernels
from paceline.runtime.engine.scheduler.compact_json import disable_json_whitespace
from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver
from paceline.runtime.engine.scheduler.governor_start import start_governor
from paceline.runtime.engine.scheduler.prefill_pacing import SchedulerPacing, start_pacing
from paceline.runtime.engine.scheduler.settings import parse_settings

logger = logging.getLogger("vllm.paceline.scheduler")


class AdaptiveScheduler:
    """vLLM's scheduler, with the draft length of each step chosen by a policy.

    Calling it returns a `SyncAdaptiveScheduler` or an `AsyncAdaptiveScheduler`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        vllm_config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
        if vllm_config.scheduler_config.async_scheduling:
            return AsyncAdaptiveScheduler(*args, **kwargs)
        return SyncAdaptiveScheduler(*args, **kwargs)


class _Governed:
    """The overrides of both schedulers; without `governor` and `pacing` they only call vLLM's."""

    requests: dict[str, Any]  # vLLM's
    governor: GovernorDriver | None = None
    pacing: SchedulerPacing | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        vllm_config: Any = self.vllm_config  # type: ignore[attr-defined]
        settings = parse_settings(
            vllm_config.additional_config,
            max_draft_length=self.num_spec_tokens,  # type: ignore[attr-defined]
        )
        executor = find_executor()
        kernels = check_kernels(executor, vllm_config, settings.expected_kernels)
        self.governor = start_governor(self, settings, executor, kernels)
        self.pacing = start_pacing(self, settings)
        if settings.compact_json:
            disable_json_whitespace(vllm_config)

    def add_request(self, request: Any) -> None:
        if self.governor is not None:
            self.governor.add_request(request, is_new=request.request_id not in self.requests)
        super().add_request(request)  # type: ignore[misc]

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        if self.pacing is not None:
            self.pacing.before_schedule(self)
        if self.governor is not None:
            self.governor.before_schedule(self)
        return super().schedule(*args, **kwargs)  # type: ignore[misc]

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        if self.governor is not None:
            self.governor.before_step(self, scheduler_output)
        if self.pacing is not None:
            self.pacing.step_scheduled(scheduler_output)
        super()._update_after_schedule(scheduler_output)  # type: ignore[misc]

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        if self.governor is not None:
            scheduler_output = self.governor.hide_forbidden(scheduler_output)
        return super().get_grammar_bitmask(scheduler_output)  # type: ignore[misc]

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: dict[str, int] | None,
        request_id: str,
    ) -> Any:
        # Runs once per request and step, so it only appends. Grammar-invalid tokens are subtracted
        # after the step.
        if self.governor is not None and num_draft_tokens:
            self.governor.verified.append((request_id, num_draft_tokens, num_accepted_tokens))
        return super().make_spec_decoding_stats(  # type: ignore[misc]
            spec_decoding_stats,
            num_draft_tokens,
            num_accepted_tokens,
            num_invalid_spec_tokens,
            request_id,
        )

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        outputs = super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        if self.governor is not None:
            self.governor.after_step(self, scheduler_output, model_runner_output)
        if self.pacing is not None:
            self.pacing.after_step(self, scheduler_output)
        return outputs

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        super().update_draft_token_ids(draft_token_ids)  # type: ignore[misc]
        if self.governor is not None:
            self.governor.after_drafts(self, draft_token_ids)
        if self.pacing is not None:
            self.pacing.after_drafts()

    def shutdown(self) -> None:
        if self.governor is not None:
            self.governor.close()
        super().shutdown()  # type: ignore[misc]


class SyncAdaptiveScheduler(_Governed, Scheduler):
    """The governed scheduler for synchronous scheduling."""


class AsyncAdaptiveScheduler(_Governed, AsyncScheduler):
    """The governed scheduler for asynchronous scheduling."""

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        super()._update_after_schedule(scheduler_output)
        if self.governor is not None:
            self.governor.after_schedule(self, scheduler_output)
