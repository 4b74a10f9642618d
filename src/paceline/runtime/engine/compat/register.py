"""The register of hooks: what Paceline relies on in vLLM, why, and when each entry can be removed.

Data only. This file has the hooks of the scheduler; `register_graphs`, `register_fixes`,
`register_workers`, `register_early_stop`, `register_trimming` and `register_calibration` have those
of CUDA graphs, fixes, workers, drafts that end early, drafts left out and trial steps. `checks`
judges them on the installed vLLM, `tools/vllm_hooks` on other releases; docs/vllm-hooks.md is
generated from them."""

from __future__ import annotations

from paceline.runtime.engine.compat.hook import VLLM_FILES, VLLM_REPOSITORY, VllmHook
from paceline.runtime.engine.compat.register_calibration import CALIBRATION_HOOKS
from paceline.runtime.engine.compat.register_early_stop import EARLY_STOP_HOOKS
from paceline.runtime.engine.compat.register_fixes import FIX_HOOKS
from paceline.runtime.engine.compat.register_graphs import GRAPH_HOOKS
from paceline.runtime.engine.compat.register_trimming import TRIMMING_HOOKS
from paceline.runtime.engine.compat.register_workers import WORKER_HOOKS

# When a hook can be removed.
_LENGTH_FROM_PLUGIN = "vLLM asks a plugin for the draft length of each step"
_START_REPORTED = "the scheduler interface reports the start of a step"
_PACED_BY_VLLM = "vLLM paces prefills by a latency objective"
_ACCEPTANCE_TO_PLUGIN = "vLLM reports acceptance per request and step to plugins"

_SCHEDULER_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="update_after_schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="governor",
        purpose="set the draft length in the complete scheduler output, before the worker reads it",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_FROM_PLUGIN,
    ),
    VllmHook(
        name="async_update_after_schedule",
        target="vllm.v1.core.sched.async_scheduler:AsyncScheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="governor",
        purpose="the same under asynchronous scheduling, where placeholders follow the length",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_FROM_PLUGIN,
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
        part="governor",
        purpose="takes the draft length to the worker and to the placeholders",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_FROM_PLUGIN,
    ),
    VllmHook(
        name="schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler.schedule",
        expected=("self", "throttle_prefills"),
        part="governor",
        purpose="note when a step starts; drop drafts if sampled requests must not be speculated",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_START_REPORTED,
    ),
    VllmHook(
        name="add_request",
        target="vllm.v1.core.sched.scheduler:Scheduler.add_request",
        expected=("self", "request"),
        part="governor",
        purpose="read the cap that a request sets on its draft length",
        upstream=f"{VLLM_REPOSITORY}/issues/6993",
        remove_when="vLLM lets a request limit or switch off its speculation",
    ),
    VllmHook(
        name="update_from_output",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        expected=("self", "scheduler_output", "model_runner_output"),
        part="governor",
        purpose="note when the results of a step have arrived",
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
        part="governor",
        purpose="count drafted and accepted tokens per request exactly as vLLM's own metrics do",
        remove_when=_ACCEPTANCE_TO_PLUGIN,
    ),
    VllmHook(
        name="update_draft_token_ids",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids",
        expected=("self", "draft_token_ids"),
        part="governor",
        purpose="trim drafts that are longer than planned or than the request allows",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter follows the length of the step",
    ),
    VllmHook(
        name="draft_token_ids",
        target="vllm.v1.outputs:DraftTokenIds",
        expected=("req_ids", "draft_token_ids"),
        part="governor",
        purpose="read which requests the worker has drafted for, and how many tokens",
        remove_when=_LENGTH_FROM_PLUGIN,
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
        part="governor",
        purpose="read the ceiling and the requests; set a constant lookup to prevent padding",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_LENGTH_FROM_PLUGIN,
    ),
    VllmHook(
        name="drafting_config",
        target="vllm.config.speculative:SpeculativeConfig",
        expected=(
            "method",
            "parallel_drafting",
            "rejection_sample_method",
            "draft_sample_method",
            "enable_adaptive_verification",
        ),
        part="governor",
        purpose="read which drafter is configured and how it verifies",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter follows the length of the step",
    ),
    VllmHook(
        name="mtp_modules",
        target="vllm.config.speculative:SpeculativeConfig.use_multi_module_mtp",
        expected=("self",),
        part="governor",
        purpose="detect an MTP of several modules, which ignores the length under Model Runner V2",
        upstream=f"{VLLM_REPOSITORY}/issues/46399",
        remove_when="every drafter follows the length of the step",
    ),
    VllmHook(
        name="request_attributes",
        target="vllm.v1.request:Request.__init__",
        expected=(
            "is_prefill_chunk",
            "num_computed_tokens",
            "num_prompt_tokens",
            "num_stale_output_tokens",
            "request_id",
            "sampling_params",
            "spec_token_ids",
            "status",
            "structured_output_request",
        ),
        part="governor",
        purpose="read context, sampling and state; drop or trim the drafts of a request",
        remove_when=_LENGTH_FROM_PLUGIN,
    ),
    VllmHook(
        name="sampling_params",
        target="vllm.sampling_params:SamplingParams",
        expected=(
            "extra_args",
            "seed",
            "temperature",
            "structured_outputs",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "allowed_token_ids",
            "bad_words",
            "min_tokens",
        ),
        part="governor",
        purpose="read the cap of a request, how it samples, and what binds its answer",
        remove_when="vLLM lets a request limit or switch off its speculation",
    ),
    VllmHook(
        name="grammar_masks",
        target="vllm.v1.core.sched.scheduler:Scheduler.get_grammar_bitmask",
        expected=("self", "scheduler_output"),
        part="governor",
        purpose="verify the first draft token that a grammar forbids, so that it is rejected",
        remove_when="the synchronous scheduler drops no drafts that were drawn",
    ),
    VllmHook(
        name="get_request_counts",
        target="vllm.v1.core.sched.scheduler:Scheduler.get_request_counts",
        expected=("self",),
        part="governor",
        purpose="read the number of waiting requests, its second result",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_LENGTH_FROM_PLUGIN,
    ),
    VllmHook(
        name="has_requests",
        target="vllm.v1.core.sched.scheduler:Scheduler.has_requests",
        expected=("self",),
        part="governor",
        purpose="know whether the next step follows immediately, to measure its duration",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_START_REPORTED,
    ),
    VllmHook(
        name="shutdown",
        target="vllm.v1.core.sched.scheduler:Scheduler.shutdown",
        expected=("self",),
        part="governor",
        purpose="close the control channel",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when="never: part of the scheduler interface",
    ),
    VllmHook(
        name="request_is_finished",
        target="vllm.v1.request:Request.is_finished",
        expected=("self",),
        part="governor",
        purpose="leave a request that ended within the step out of acceptance",
        remove_when=_ACCEPTANCE_TO_PLUGIN,
    ),
    VllmHook(
        name="rust_front_end",
        target="vllm.entrypoints.cli.serve:run_multi_api_server",
        expected=("args",),
        part="rust_front_end",
        purpose="refuse the front end that loads no plugins, before anything is started",
        upstream=f"{VLLM_REPOSITORY}/issues/44280",
        remove_when="the Rust front end loads plugins and checks requests against speculation",
    ),
    VllmHook(
        name="token_budget",
        target="vllm.v1.core.sched.scheduler:Scheduler.schedule",
        expected=("max_num_scheduled_tokens", "long_prefill_token_threshold"),
        is_body=True,
        part="prefill_pacing",
        purpose="reads both limits anew for every step: all its tokens, and those of one prompt",
        remove_when=_PACED_BY_VLLM,
    ),
    VllmHook(
        name="pacing_request_counts",
        target="vllm.v1.core.sched.scheduler:Scheduler.get_request_counts",
        expected=("self",),
        part="prefill_pacing",
        purpose="know whether a request runs or waits, without looking at each",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_PACED_BY_VLLM,
    ),
    VllmHook(
        name="pacing_has_requests",
        target="vllm.v1.core.sched.scheduler:Scheduler.has_requests",
        expected=("self",),
        part="prefill_pacing",
        purpose="know whether the next step follows immediately, to measure its duration",
        upstream=f"{VLLM_FILES}/v1/core/sched/interface.py",
        remove_when=_PACED_BY_VLLM,
    ),
    VllmHook(
        name="request_progress",
        target="vllm.v1.request:Request.__init__",
        expected=("is_prefill_chunk", "spec_token_ids"),
        is_body=True,
        part="prefill_pacing",
        purpose="read which requests decode and how many tokens they compute",
        remove_when=_PACED_BY_VLLM,
    ),
)

REGISTER: tuple[VllmHook, ...] = (
    *_SCHEDULER_HOOKS,
    *GRAPH_HOOKS,
    *FIX_HOOKS,
    *WORKER_HOOKS,
    *EARLY_STOP_HOOKS,
    *TRIMMING_HOOKS,
    *CALIBRATION_HOOKS,
)
