"""Which places of vLLM Paceline relies on, and whether the installed vLLM still has them so.

Every place is one entry of the register: checked when the scheduler starts, and in the tests
against the installed vLLM. On a mismatch the part that needs the seam steps aside, loudly, and
vLLM serves on as if Paceline were not there.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any, Literal

_REPOSITORY = "https://github.com/vllm-project/vllm"


@dataclass(frozen=True, slots=True)
class Seam:
    """One place of vLLM that Paceline hooks into or reads."""

    name: str
    target: str
    """`module:attribute.attribute`."""
    expected: tuple[str, ...]
    """Parameter names of a callable; of a class, annotated fields that must be there; of an
    `__init__`, and where `is_body` says so, names that the body must mention."""
    part: Literal[
        "steering", "sampler_check", "sampler_repair", "top_k_repair", "generator_repair", "worker"
    ]
    """What steps aside when the seam does not fit. `worker`: read in vLLM's workers, whose modules
    the engine core should not load; the tests check these."""
    purpose: str
    upstream: str
    remove_when: str
    is_body: bool = False


REGISTER: tuple[Seam, ...] = (
    Seam(
        name="update_after_schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="steering",
        purpose="set the step's draft length when its output is complete, before anyone reads it",
        upstream=f"{_REPOSITORY}/pull/32374",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="async_update_after_schedule",
        target="vllm.v1.core.sched.async_scheduler:AsyncScheduler._update_after_schedule",
        expected=("self", "scheduler_output"),
        part="steering",
        purpose="the same under asynchronous scheduling; placeholders follow the length set before",
        upstream=f"{_REPOSITORY}/pull/32374",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
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
        upstream=f"{_REPOSITORY}/pull/32374",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="schedule",
        target="vllm.v1.core.sched.scheduler:Scheduler.schedule",
        expected=("self", "throttle_prefills"),
        part="steering",
        purpose="when a step starts; drop drafts where sampled requests must not be speculated",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/interface.py",
        remove_when="the scheduler interface reports the start of a step",
    ),
    Seam(
        name="update_from_output",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        expected=("self", "scheduler_output", "model_runner_output"),
        part="steering",
        purpose="when a step's results are there",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/interface.py",
        remove_when="the scheduler interface reports the results of a step",
    ),
    Seam(
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
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/scheduler.py",
        remove_when="vLLM hands acceptance per request and step to a plugin",
    ),
    Seam(
        name="update_draft_token_ids",
        target="vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids",
        expected=("self", "draft_token_ids"),
        part="steering",
        purpose="trim drafts of drafters that always propose the maximum (suffix)",
        upstream=f"{_REPOSITORY}/issues/46399",
        remove_when="every drafter takes the length of the step",
    ),
    Seam(
        name="scheduler_attributes",
        target="vllm.v1.core.sched.scheduler:Scheduler.__init__",
        expected=(
            "dynamic_sd_lookup",
            "max_num_running_reqs",
            "num_spec_tokens",
            "requests",
            "running",
            "vllm_config",
        ),
        part="steering",
        purpose="read the ceiling and the requests; a constant lookup keeps vLLM from padding",
        upstream=f"{_REPOSITORY}/pull/32374",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="request_attributes",
        target="vllm.v1.request:Request.__init__",
        expected=(
            "num_computed_tokens",
            "num_stale_output_tokens",
            "sampling_params",
            "spec_token_ids",
        ),
        part="steering",
        purpose="read the context and the temperature; drop or trim a request's drafts",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/request.py",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="get_request_counts",
        target="vllm.v1.core.sched.scheduler:Scheduler.get_request_counts",
        expected=("self",),
        part="steering",
        purpose="how many requests wait, its second number",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/interface.py",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="has_requests",
        target="vllm.v1.core.sched.scheduler:Scheduler.has_requests",
        expected=("self",),
        part="steering",
        purpose="whether another step follows at once, so that its duration counts",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/interface.py",
        remove_when="the scheduler interface reports the start of a step",
    ),
    Seam(
        name="shutdown",
        target="vllm.v1.core.sched.scheduler:Scheduler.shutdown",
        expected=("self",),
        part="steering",
        purpose="close the control channel",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/core/sched/interface.py",
        remove_when="never: part of the scheduler interface",
    ),
    Seam(
        name="request_is_finished",
        target="vllm.v1.request:Request.is_finished",
        expected=("self",),
        part="steering",
        purpose="a request that ended within a step is not judged by its drafts",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/request.py",
        remove_when="vLLM hands acceptance per request and step to a plugin",
    ),
    Seam(
        name="worker_reads_length",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids",
        expected=("num_spec_tokens_to_schedule",),
        is_body=True,
        part="worker",
        purpose="the worker drafts as far as the step's output says (Model Runner V1)",
        upstream=f"{_REPOSITORY}/pull/32374",
        remove_when="vLLM asks a plugin for the draft length of a step",
    ),
    Seam(
        name="engine_core_executor",
        target="vllm.v1.engine.core:EngineCore.__init__",
        expected=("model_executor", "scheduler"),
        part="sampler_check",
        purpose="the executor, to ask the workers; it is there before the scheduler is made",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/engine/core.py",
        remove_when="a scheduler may ask the workers",
    ),
    Seam(
        name="dispatched_expand",
        target="vllm.v1.sample.rejection_sampler:expand_batch_to_tokens",
        expected=("x", "cu_num_tokens", "num_tokens", "replace_from", "replace_to"),
        part="sampler_check",
        purpose="calls `_expand`, which the check calls too: what was put in for the kernel",
        upstream=f"{_REPOSITORY}/issues/55005",
        remove_when="the stock function passes tests/engine/test_sampler_repair.py",
    ),
    Seam(
        name="worker_order",
        target="vllm.v1.worker.worker_base:WorkerWrapperBase.init_worker",
        expected=("load_general_plugins", "register_triton_kernel_overrides"),
        is_body=True,
        part="sampler_check",
        purpose="plugins are loaded before the sampler's functions are read, in each worker",
        upstream=f"{_REPOSITORY}/issues/55005",
        remove_when="the stock function passes tests/engine/test_sampler_repair.py",
    ),
    Seam(
        name="expand_kernel",
        target="vllm.utils.cpu_triton_utils:_expand_kernel_impl",
        expected=(
            "output",
            "input_val",
            "cu_num_tokens",
            "replace_from",
            "replace_to",
            "MAX_NUM_TOKENS",
        ),
        part="sampler_repair",
        purpose="write temperature, top-k and top-p per draft token into the output on CPU",
        upstream=f"{_REPOSITORY}/issues/55005",
        remove_when="the stock function passes tests/engine/test_sampler_repair.py",
    ),
    Seam(
        name="rejection_random_sample_kernel",
        target="vllm.utils.cpu_triton_utils:_rejection_random_sample_kernel_impl",
        expected=(
            "output_token_ids",
            "cu_num_draft_tokens",
            "draft_token_ids",
            "draft_probs",
            "target_probs",
            "bonus_token_ids",
            "recovered_token_ids",
            "uniform_probs",
            "is_greedy",
            "max_spec_len",
            "vocab_size",
            "synthetic_conditional_rates",
            "NO_DRAFT_PROBS",
            "SYNTHETIC_MODE",
        ),
        part="sampler_repair",
        purpose="reject padded drafts (-1) on CPU instead of reading outside the probabilities",
        upstream=f"{_REPOSITORY}/issues/55005",
        remove_when="the stock function passes tests/engine/test_sampler_repair.py",
    ),
    Seam(
        name="apply_top_k_only",
        target="vllm.v1.sample.ops.topk_topp_sampler:apply_top_k_only",
        expected=("logits", "k"),
        part="top_k_repair",
        purpose="let top-k without top-p pass a step that verifies no draft token",
        upstream=f"{_REPOSITORY}/issues/55005",
        remove_when="the stock function passes tests/engine/test_sampler_repair.py",
    ),
    Seam(
        name="platform_worker_hook",
        target="vllm.platforms.cpu:CpuPlatform.register_triton_kernel_overrides",
        expected=(),
        part="generator_repair",
        purpose="when a CPU worker makes its model runner",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/platforms/interface.py",
        remove_when="vLLM turns back generators on CPUs without an error",
    ),
    Seam(
        name="bookkeeping_sync",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner._bookkeeping_sync",
        expected=(
            "self",
            "scheduler_output",
            "sampler_output",
            "logits",
            "hidden_states",
            "num_scheduled_tokens",
        ),
        part="generator_repair",
        purpose="turns back the generators of seeded requests, which ends the engine on CPUs",
        upstream=f"{_REPOSITORY}/blob/v0.32.0/vllm/v1/worker/gpu_model_runner.py",
        remove_when="vLLM turns back generators on CPUs without an error",
    ),
)


def check_seam(seam: Seam) -> str:
    """ "ok", or in words how the installed vLLM differs. Imports the target; never raises."""
    module_name, _, path = seam.target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            found = getattr(found, attribute)
        # A replaced function carries the original: check what vLLM ships, not our own.
        found = inspect.unwrap(found)
    except (ImportError, AttributeError) as error:
        return f"{seam.target} is not there: {error}"
    if inspect.isclass(found):
        fields = inspect.get_annotations(found)
        missing = [name for name in seam.expected if name not in fields]
        return f"{seam.target} lacks {', '.join(missing)}" if missing else "ok"
    if seam.is_body or seam.target.endswith(".__init__"):
        missing = [name for name in seam.expected if name not in found.__code__.co_names]
        return f"{seam.target} does not mention {', '.join(missing)}" if missing else "ok"
    names = tuple(inspect.signature(found).parameters)
    if names != seam.expected:
        return f"{seam.target} takes ({', '.join(names)}), expected ({', '.join(seam.expected)})"
    return "ok"


def check_seams(*parts: str) -> dict[str, str]:
    """Every seam's name with "ok" or what does not fit; of some parts only, where named.

    Naming parts also spares the imports of the others' targets. Without names: all parts but
    `worker`.
    """
    return {
        seam.name: check_seam(seam)
        for seam in REGISTER
        if (seam.part in parts if parts else seam.part != "worker")
    }


def unfit_for(part: str, found: dict[str, str]) -> str:
    """What keeps `part` from working, in words; empty when every seam it needs fits."""
    needed = [seam.name for seam in REGISTER if seam.part == part]
    return "; ".join(f"{name}: {found[name]}" for name in needed if found[name] != "ok")
