"""The hooks of drafts that end early (`worker.early_stop`).

Data only, part of `register`.
"""

from __future__ import annotations

from paceline.runtime.engine.compat.hook import VLLM_REPOSITORY, VllmHook
from paceline.runtime.engine.compat.register_workers import PROPOSE_PARAMETERS

# When a hook can be removed.
_ENDED_BY_VLLM = "vLLM ends drafts by the draft model's confidence, and reports it to plugins"

_PROPOSER = "vllm.v1.spec_decode.llm_base_proposer:SpecDecodeBaseProposer"

EARLY_STOP_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="early_stop_passes",
        target=f"{_PROPOSER}._sample_draft_tokens",
        expected=("self", "hidden_states", "sampling_metadata"),
        part="early_stop",
        purpose="read the draft model's confidence after each pass; leave the loop over the passes",
        upstream=f"{VLLM_REPOSITORY}/issues/35301",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_loop",
        target=f"{_PROPOSER}.propose",
        expected=("_sample_draft_tokens", "_last_draft_probs", "stack"),
        is_body=True,
        part="early_stop",
        purpose="return the tokens drawn until then, and the probabilities they were drawn from",
        upstream=f"{VLLM_REPOSITORY}/issues/35301",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_logits",
        target=f"{_PROPOSER}._greedy_sample",
        expected=("model", "compute_logits", "argmax"),
        is_body=True,
        part="early_stop",
        purpose="keep the logits, because no probabilities are computed for greedy drafts",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_probs",
        target=f"{_PROPOSER}.take_last_draft_probs",
        expected=("_last_draft_probs",),
        is_body=True,
        part="early_stop",
        purpose="hands the probabilities to the rejection sampler",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_step",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids",
        expected=PROPOSE_PARAMETERS,
        part="early_stop",
        purpose="read the order of a step before it drafts",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_report",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.take_draft_token_ids",
        expected=("self",),
        part="early_stop",
        purpose="send the confidences to the scheduler with the drafts",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_drafts_are_taken",
        target="vllm.v1.engine.core:EngineCore.post_step",
        expected=("take_draft_token_ids", "update_draft_token_ids"),
        is_body=True,
        part="early_stop",
        purpose="passes the worker's object to the scheduler after each step",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_drafts",
        target="vllm.v1.outputs:DraftTokenIds",
        expected=("req_ids", "draft_token_ids"),
        part="early_stop",
        purpose="holds the report as an additional attribute",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_batch",
        target="vllm.v1.worker.gpu_input_batch:InputBatch.__init__",
        expected=("req_id_to_index",),
        part="early_stop",
        purpose="know which row of the drafts belongs to which request",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_runner",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.__init__",
        expected=("drafter", "discard_request_mask"),
        part="early_stop",
        purpose="find the drafter; leave requests whose prompt is incomplete out of the decision",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_ranks",
        target="vllm.distributed.parallel_state:GroupCoordinator.broadcast",
        expected=("self", "input_", "src"),
        part="early_stop",
        purpose="let the first rank decide for all ranks of tensor parallelism",
        remove_when=_ENDED_BY_VLLM,
    ),
    VllmHook(
        name="early_stop_config",
        target="vllm.config.speculative:SpeculativeConfig",
        expected=(
            "method",
            "parallel_drafting",
            "use_heterogeneous_vocab",
            "use_local_argmax_reduction",
        ),
        part="early_stop",
        purpose="read whether the drafter drafts token by token, and computes its logits",
        remove_when=_ENDED_BY_VLLM,
    ),
)
