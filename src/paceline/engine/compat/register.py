"""Which places of vLLM does Paceline rely on, what for, and until when?

Data only: those of the scheduler here, those of the workers in `hook_register_workers` and
`hook_register_evidence`. Read in vLLM 0.32.0. `hooks` checks them against the installed vLLM,
`tools/vllm_hooks` against others; docs/vllm-hooks.md is generated from them.
"""

from __future__ import annotations

from paceline.engine.compat.hook import VLLM_FILES, VLLM_REPOSITORY, VllmHook
from paceline.engine.compat.register_probes import EVIDENCE_SEAMS
from paceline.engine.compat.register_workers import WORKER_SEAMS

# When a hook can go.
_LENGTH_ASKED = "vLLM asks a plugin for the draft length of a step"
_START_REPORTED = "the scheduler interface reports the start of a step"
_BUDGET_ASKED = "vLLM paces prefills by an objective of its own"
_ACCEPTANCE_HANDED = "vLLM hands acceptance per request and step to a plugin"

_SCHEDULER_SEAMS: tuple[VllmHook, ...] = (
    VllmHook(
        name="update_after_schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="steering",
        purpose="set the step's draft length when its output is complete, before anyone reads it",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="async_update_after_schedule",
        target="vllm.v1.core.sched.async_scheduler:AsyncScheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="steering",
        purpose="the same under asynchronous scheduling; placeholders follow the length set before",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="scheduler_output",
        target="vllm.v1.core.sched.output:SchedulerOutput",
        expected=(
            "num_scheduled_tokens",
            "total_num_scheduled_tokens",
            "scheduled_spec_decode_tokens",
            "num_spec_tokens_to_schedule",
        ),
        part="steering",
        purpose="carries the draft length to the worker and to the placeholders",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler.schedule",
        expected=("self", "throttle_prefills"),
        part="steering",
        purpose="when a step starts; drop drafts where sampled requests must not be speculated",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_START_REPORTED,
    ),
    VllmHook(
        name="update_from_output",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        expected=("self", "scheduler_output", "model_runner_output"),
        part="steering",
        purpose="when a step's results are there",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when="the scheduler interface reports the results of a step",
    ),
    VllmHook(
        name="make_spec_decoding_stats",
        target="vllm.v1.core.sched.scheduler:Scheduler.make_spec_decoding_stats",
        expected=(
            "self",
            "spec_decoding_stats",
            "num_draft_tokens",
            "num_accepted_tokens",
            "num_invalid_spec_tokens",
            "request_id",
        ),
        part="steering",
        purpose="drafted and accepted per request, exactly as vLLM's own metrics count them",
        upstream=f"{VLLM_FILES}/v1/core/sched/scheduler.py",
        remove_when=_ACCEPTANCE_HANDED,
    ),
    VllmHook(
        name="update_draft_token_ids",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids",
        expected=("self", "draft_token_ids"),
        part="steering",
        purpose="trim what is proposed beyond the length of the step (suffix, medusa)",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter takes the length of the step",
    ),
    VllmHook(
        name="scheduler_attributes",
        target="vllm.v1.core.sched.scheduler:Scheduler.__init__",
        expected=(
            "dynamic_sd_lookup",
            "kv_cache_config",
            "max_num_running_reqs",
            "num_spec_tokens",
            "requests",
            "running",
            "vllm_config",
        ),
        part="steering",
        purpose="read the ceiling and the requests; a constant lookup keeps vLLM from padding",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="drafting_config",
        target="vllm.config.speculative:SpeculativeConfig",
        expected=(
            "method",
            "parallel_drafting",
            "rejection_sample_method",
            "enable_adaptive_verification",
        ),
        part="steering",
        purpose="which drafter there is, and what it does with the length of a step",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter takes the length of the step",
    ),
    VllmHook(
        name="mtp_modules",
        target="vllm.config.speculative:SpeculativeConfig.use_multi_module_mtp",
        expected=("self",),
        part="steering",
        purpose="an MTP of several modules ignores the length under Model Runner V2",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter takes the length of the step",
    ),
    VllmHook(
        name="request_attributes",
        target="vllm.v1.request:Request.__init__",
        expected=(
            "num_computed_tokens",
            "num_stale_output_tokens",
            "sampling_params",
            "spec_token_ids",
            "status",
        ),
        part="steering",
        purpose="read context, temperature and state; drop or trim a request's drafts",
        upstream=f"{VLLM_FILES}/v1/request.py",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="get_request_counts",
        target="vllm.v1.core.sched.scheduler:Scheduler.get_request_counts",
        expected=("self",),
        part="steering",
        purpose="how many requests wait, its second number",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_LENGTH_ASKED,
    ),
    VllmHook(
        name="has_requests",
        target="vllm.v1.core.sched.scheduler:Scheduler.has_requests",
        expected=("self",),
        part="steering",
        purpose="whether another step follows at once, so that its duration counts",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_START_REPORTED,
    ),
    VllmHook(
        name="shutdown",
        target="vllm.v1.core.sched.scheduler:Scheduler.shutdown",
        expected=("self",),
        part="steering",
        purpose="close the control channel",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when="never: part of the scheduler interface",
    ),
    VllmHook(
        name="request_is_finished",
        target="vllm.v1.request:Request.is_finished",
        expected=("self",),
        part="steering",
        purpose="a request that ended within a step is not judged by its drafts",
        upstream=f"{VLLM_FILES}/v1/request.py",
        remove_when=_ACCEPTANCE_HANDED,
    ),
    VllmHook(
        name="token_budget",
        target="vllm.v1.core.sched.scheduler:Scheduler.schedule",
        expected=("max_num_scheduled_tokens", "long_prefill_token_threshold"),
        is_body=True,
        part="pacing",
        purpose="both are read anew for every step: its tokens, and those of one prompt in it",
        upstream=f"{VLLM_FILES}/v1/core/sched/scheduler.py",
        remove_when=_BUDGET_ASKED,
    ),
    VllmHook(
        name="request_progress",
        target="vllm.v1.request:Request.__init__",
        expected=("num_prompt_tokens", "num_computed_tokens", "spec_token_ids"),
        is_body=True,
        part="pacing",
        purpose="who is decoding, and what their step takes",
        upstream=f"{VLLM_FILES}/v1/request.py",
        remove_when=_BUDGET_ASKED,
    ),
)

REGISTER: tuple[VllmHook, ...] = (*_SCHEDULER_SEAMS, *WORKER_SEAMS, *EVIDENCE_SEAMS)
