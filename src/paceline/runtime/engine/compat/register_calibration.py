"""The hooks of the trial steps that measure an engine's costs at its start.

Data only, part of `register`.
"""

from __future__ import annotations

from paceline.runtime.engine.compat.hook import VllmHook

_MEASURED_BY_VLLM = "vLLM measures the cost of a step by requests and draft tokens"

CALIBRATION_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="trial_output",
        target="vllm.v1.core.sched.output:SchedulerOutput",
        expected=(
            "scheduled_new_reqs",
            "scheduled_cached_reqs",
            "num_scheduled_tokens",
            "total_num_scheduled_tokens",
            "scheduled_spec_decode_tokens",
            "finished_req_ids",
            "num_spec_tokens_to_schedule",
        ),
        part="calibration",
        purpose="describe a trial step to the workers",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="empty_trial_output",
        target="vllm.v1.core.sched.output:SchedulerOutput.make_empty",
        expected=(),
        part="calibration",
        purpose="begin the output of a trial step, and remove the trial requests",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="trial_request",
        target="vllm.v1.core.sched.output:NewRequestData",
        expected=(
            "req_id",
            "prompt_token_ids",
            "mm_features",
            "sampling_params",
            "pooling_params",
            "block_ids",
            "num_computed_tokens",
            "lora_request",
            "prefill_token_ids",
        ),
        part="calibration",
        purpose="invent requests whose prompt counts as computed",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="running_trial_requests",
        target="vllm.v1.core.sched.output:CachedRequestData",
        expected=(
            "req_ids",
            "resumed_req_ids",
            "new_token_ids",
            "all_token_ids",
            "new_block_ids",
            "num_computed_tokens",
            "num_output_tokens",
        ),
        part="calibration",
        purpose="run further steps of the trial requests",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="execute_model",
        target="vllm.v1.executor.abstract:Executor.execute_model",
        expected=("self", "scheduler_output", "non_block"),
        part="calibration",
        purpose="run the target in a trial step",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="sample_tokens",
        target="vllm.v1.executor.abstract:Executor.sample_tokens",
        expected=("self", "grammar_output", "non_block"),
        part="calibration",
        purpose="sample and draft in a trial step",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="take_trial_drafts",
        target="vllm.v1.executor.abstract:Executor.take_draft_token_ids",
        expected=("self",),
        part="calibration",
        purpose="wait for the drafts of a trial step",
        remove_when=_MEASURED_BY_VLLM,
    ),
    VllmHook(
        name="discarded_answer_tokens",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner._update_states",
        expected=(
            "finished_req_ids",
            "num_output_tokens",
            "output_token_ids",
            "num_tokens_no_spec",
            "update_req_spec_token_ids",
        ),
        is_body=True,
        part="trial_steps",
        purpose="discards answer tokens beyond the stated number, so that trial steps can repeat",
        remove_when=_MEASURED_BY_VLLM,
    ),
)
