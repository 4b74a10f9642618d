"""The hooks that keep drafts that vLLM left out apart from rejected ones.

Data only, part of `register`. They concern `enable_adaptive_verification` of Model Runner V2.
"""

from __future__ import annotations

from paceline.engine.compat.hook import VLLM_FILES, VllmHook

_REPORTED_BY_VLLM = "vLLM reports to the scheduler which drafts it verified"
_RUNNER = "vllm.v1.worker.gpu.model_runner"
_RUNNER_FILE = f"{VLLM_FILES}/v1/worker/gpu/model_runner.py"

TRIMMING_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="trimmed_step",
        target=f"{_RUNNER}:GPUModelRunner.sample_tokens",
        expected=("self", "grammar_output"),
        part="trimmed_drafts",
        purpose="attach to the results which drafts were verified",
        upstream=_RUNNER_FILE,
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_state",
        target=f"{_RUNNER}:ExecuteModelState",
        expected=("input_batch",),
        part="trimmed_drafts",
        purpose="holds the batch between its forward pass and its sampling",
        upstream=_RUNNER_FILE,
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_runner",
        target=f"{_RUNNER}:GPUModelRunner.__init__",
        expected=("execute_model_state", "pcp_manager"),
        part="trimmed_drafts",
        purpose="read the batch, and whether workers divide it",
        upstream=_RUNNER_FILE,
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
        upstream=f"{VLLM_FILES}/v1/worker/gpu/input_batch.py",
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
        upstream=f"{VLLM_FILES}/v1/worker/gpu/spec_decode/adaptive_verification.py",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_results",
        target="vllm.v1.worker.gpu.async_utils:AsyncOutput.__init__",
        expected=("model_runner_output", "copy_event", "wait_stream"),
        part="trimmed_drafts",
        purpose="keeps the results, and waits for all copies that were queued before its own",
        upstream=f"{VLLM_FILES}/v1/worker/gpu/async_utils.py",
        remove_when=_REPORTED_BY_VLLM,
    ),
    VllmHook(
        name="trimmed_requests",
        target="vllm.v1.outputs:ModelRunnerOutput",
        expected=("req_ids",),
        part="trimmed_drafts",
        purpose="names the requests in the order of the batch",
        upstream=f"{VLLM_FILES}/v1/outputs.py",
        remove_when=_REPORTED_BY_VLLM,
    ),
)
