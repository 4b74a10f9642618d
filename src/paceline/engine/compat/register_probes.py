"""What in vLLM's workers lets them tell more of the drafter than its drafts, and until when?

Data only, the third part of `hook_register`: the places that `replay_scoring_pass` and
`first_token_pass` rely on. Read in vLLM 0.32.0.
"""

from __future__ import annotations

from paceline.engine.compat.hook import VLLM_FILES, VllmHook

# When a hook can go.
_JUDGES_RESTING = "vLLM judges a draft model that rests"
_JUDGES_FIRST = "vLLM tells whether a drafter's first token came, where nothing is drafted"

EVIDENCE_SEAMS: tuple[VllmHook, ...] = (
    VllmHook(
        name="take_draft_token_ids",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.take_draft_token_ids",
        expected=("self",),
        part="replay_scoring",
        purpose="the report goes to the scheduler with the drafts, also with none",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="drafts_are_taken",
        target="vllm.v1.engine.core:EngineCore.post_step",
        expected=("take_draft_token_ids", "update_draft_token_ids"),
        is_body=True,
        part="replay_scoring",
        purpose="hands what the worker gives to the scheduler after each step, whatever it holds",
        upstream=f"{VLLM_FILES}/v1/engine/core.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="draft_token_ids",
        target="vllm.v1.outputs:DraftTokenIds",
        expected=("req_ids", "draft_token_ids"),
        part="replay_scoring",
        purpose="carries the report as an attribute more",
        upstream=f"{VLLM_FILES}/v1/outputs.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="chances_of_sampled",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner._sample",
        expected=("self", "logits", "spec_decode_metadata"),
        part="replay_scoring",
        purpose="the target's chances of the tokens it samples",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="tokens_are_kept",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner._bookkeeping_sync",
        expected=("num_tokens_no_spec", "token_ids_cpu", "output_token_ids"),
        is_body=True,
        part="replay_scoring",
        purpose="where a sampled token goes: the text, and the position of its chance",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="input_batch",
        target="vllm.v1.worker.gpu_input_batch:InputBatch.__init__",
        expected=(
            "req_id_to_index",
            "token_ids_cpu",
            "num_tokens_no_spec",
            "num_prompt_tokens",
            "temperature_cpu",
        ),
        part="replay_scoring",
        purpose="the requests of a step: their text, where the prompt ends, their temperature",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_input_batch.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="runner_attributes",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.__init__",
        expected=("speculative_config", "num_spec_tokens", "discard_request_mask"),
        part="replay_scoring",
        purpose="the ceiling, how drafts are drawn, and which sampled tokens do not count",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="draft_sampling",
        target="vllm.config.speculative:SpeculativeConfig",
        expected=("draft_sample_method", "rejection_sample_method", "use_heterogeneous_vocab"),
        part="replay_scoring",
        purpose="how drafts are drawn and judged",
        upstream=f"{VLLM_FILES}/config/speculative.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="draft_probs",
        target="vllm.v1.spec_decode.llm_base_proposer:compute_probs_and_sample_next_token",
        expected=("temperature", "softmax"),
        is_body=True,
        part="replay_scoring",
        purpose="how probable a draft is: at the request's temperature, and nothing else",
        upstream=f"{VLLM_FILES}/v1/spec_decode/llm_base_proposer.py",
        remove_when=_JUDGES_RESTING,
    ),
    VllmHook(
        name="proposes_one_instead",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids",
        expected=(
            "self",
            "scheduler_output",
            "sampled_token_ids",
            "sampling_metadata",
            "hidden_states",
            "sample_hidden_states",
            "aux_hidden_states",
            "spec_decode_metadata",
            "common_attn_metadata",
            "slot_mappings",
        ),
        part="first_token",
        purpose="asked for one token where nothing is drafted; what was sampled judges the last",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_FIRST,
    ),
    VllmHook(
        name="first_tokens_are_told",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.take_draft_token_ids",
        expected=("self",),
        part="first_token",
        purpose="the verdicts go to the scheduler with the drafts, also with none",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_FIRST,
    ),
    VllmHook(
        name="drafts_are_taken_from_all",
        target="vllm.v1.engine.core:EngineCore.post_step",
        expected=("take_draft_token_ids", "update_draft_token_ids"),
        is_body=True,
        part="first_token",
        purpose="hands what the worker gives to the scheduler after each step, whatever it holds",
        upstream=f"{VLLM_FILES}/v1/engine/core.py",
        remove_when=_JUDGES_FIRST,
    ),
    VllmHook(
        name="first_token_batch",
        target="vllm.v1.worker.gpu_input_batch:InputBatch.__init__",
        expected=("req_id_to_index", "num_tokens_no_spec", "temperature_cpu"),
        part="first_token",
        purpose="which row a request has, how long its text is, whether it samples",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_input_batch.py",
        remove_when=_JUDGES_FIRST,
    ),
    VllmHook(
        name="first_token_runner",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.__init__",
        expected=("speculative_config", "discard_request_mask", "_draft_probs"),
        part="first_token",
        purpose="how drafts are drawn, and which sampled tokens do not count",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when=_JUDGES_FIRST,
    ),
)
