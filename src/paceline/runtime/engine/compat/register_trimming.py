"""The hooks that keep drafts that vLLM left out apart from rejected ones.

Data only, part of `register`. They concern `enable_adaptive_verification` of Model Runner V2.
"""

from __future__ import annotations

from paceline.runtime.engine.compat.hook import VllmHook

_REPORTED_BY_VLLM = "vLLM reports to the scheduler which drafts it verified"
_RUNNER = "vllm.v1.worker.gpu.model_runner"

TRIMMING_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="trimmed_step",
        target=f"{_RUNNER}:GPUModelRunner.sample_tokens",
        expected=("self", "grammar_output"),
        part="trimmed_drafts",
        purpose="attach to the results which drafts were verified",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_state",
        target=f"{_RUNNER}:ExecuteModelState",
        expected=("input_batch",),
        part="trimmed_drafts",
        purpose="holds the batch between its forward pass and its sampling",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_runner",
        target=f"{_RUNNER}:GPUModelRunner.__init__",
        expected=("execute_model_state", "pcp_manager"),
        part="trimmed_drafts",
        purpose="read the batch, and whether workers divide it",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_batch",
        target="vllm.v1.worker.gpu.input_batch:InputBatch",
        expected=(
            "num_reqs",
            "num_draft_tokens",
            "num_draft_tokens_per_req",
            "cu_num_logits",
        ),
        part="trimmed_drafts",
        purpose="read how many drafts were scheduled, how many are verified, and whose",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_budget",
        target="vllm.v1.worker.gpu.spec_decode.adaptive_verification:"
        "AdaptiveVerificationManager.reallocate_drafts",
        expected=("_cu_num_logits", "num_bonus_tokens", "cumsum"),
        is_body=True,
        part="trimmed_drafts",
        purpose="gives each request one logit per verified token, and one more",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_results",
        target="vllm.v1.worker.gpu.async_utils:AsyncOutput.__init__",
        expected=("model_runner_output", "copy_event", "wait_stream"),
        part="trimmed_drafts",
        purpose="keeps the results, and waits for all copies that were queued before its own",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_requests",
        target="vllm.v1.outputs:ModelRunnerOutput",
        expected=("req_ids",),
        part="trimmed_drafts",
        purpose="names the requests in the order of the batch",
        remove_when=_REPORTED_BY_VLLM,
    ),
)
