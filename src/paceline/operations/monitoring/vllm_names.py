"""The names of vLLM's own metrics: those of its present releases, and those that it once had.

A name that begins with `vllm:` need not be vLLM's. Routers before it use the prefix (vLLM
production-stack's has `vllm:current_qps`), and so do shims and recording rules. Whether a server
should show a name therefore depends on whether vLLM has it, once had it, or has one like it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from paceline.foundation.command_line.near_names import nearest

PREFIX = "vllm:"
_ENDINGS = ("_total", "_bucket", "_sum", "_count", "_created")
_MISSPELT = 0.9
"""Likeness by `difflib`: one or two wrong letters. The router's vllm:output_tokens_total has 0.83
with vllm:prompt_tokens_total. Chosen empirically."""

PRESENT = frozenset(
    (
        "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason",
        "kv_cache_usage_perc", "prefix_cache_queries", "prefix_cache_hits",
        "external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries",
        "mm_cache_hits", "num_preemptions", "prompt_tokens", "generation_tokens",
        "prompt_tokens_cached", "prompt_tokens_by_source", "prompt_tokens_cached_by_source",
        "iteration_tokens", "request_success", "request_prompt_tokens",
        "request_generation_tokens", "request_max_num_generation_tokens", "request_params_n",
        "request_params_max_tokens", "request_num_preemptions",
        "request_prefill_kv_computed_tokens", "time_to_first_token_seconds",
        "inter_token_latency_seconds", "request_time_per_output_token_seconds",
        "e2e_request_latency_seconds", "request_queue_time_seconds",
        "request_inference_time_seconds", "request_prefill_time_seconds",
        "request_decode_time_seconds", "cache_config_info", "engine_sleep_state",
        "spec_decode_num_drafts", "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens", "spec_decode_num_accepted_tokens_per_pos",
    )
)  # fmt: skip
"""Without prefix and ending (vLLM 0.32, v1/metrics)."""

FORMER: Mapping[str, str | None] = {
    "gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "gpu_prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "gpu_prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "gpu_prefix_cache_hit_rate": "vllm:prefix_cache_hits_total over _queries_total",
    "cpu_prefix_cache_hit_rate": None,
    "cpu_cache_usage_perc": None,
    "num_requests_swapped": None,
    "time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
    "time_in_queue_requests": "vllm:request_queue_time_seconds",
    "model_forward_time_milliseconds": None,
    "model_execute_time_milliseconds": None,
    "request_params_best_of": None,
    "tokens": None,
    "avg_prompt_throughput_toks_per_s": "rate(vllm:prompt_tokens_total[1m])",
    "avg_generation_throughput_toks_per_s": "rate(vllm:generation_tokens_total[1m])",
    "spec_decode_draft_acceptance_rate": "vllm:spec_decode_num_accepted_tokens_total over "
    "_draft_tokens_total",
    "spec_decode_efficiency": None,
    "spec_decode_num_emitted_tokens": "vllm:generation_tokens_total",
}
"""Names of earlier releases, and what replaced them; None: nothing did."""

_ALSO_OF_ROUTERS = frozenset(
    (
        "num_requests_swapped", "gpu_prefix_cache_hit_rate", "gpu_prefix_cache_hits",
        "gpu_prefix_cache_queries",
    )
)  # fmt: skip
"""Former names that vLLM production-stack's router still shows, of what it read from engines."""
_OF_ROUTERS = _ALSO_OF_ROUTERS | {"num_requests_running", "num_requests_waiting"}


def family_of(name: str) -> str:
    """The name without prefix and endings.

    >>> family_of("vllm:prompt_tokens_total"), family_of("vllm:iteration_tokens_total_bucket")
    ('prompt_tokens', 'iteration_tokens')
    """
    bare = name.removeprefix(PREFIX)
    while bare.endswith(_ENDINGS):
        bare = bare.rpartition("_")[0]
    return bare


def is_of_vllm(name: str, shown: Collection[str], *, among_router_names: bool = False) -> bool:
    """Whether a name with the prefix is meant for vLLM: its own, a former one, or a misspelt one.

    `shown` is what the server has. `among_router_names`: the same file needs a metric that only a
    router has, so names that both had are taken for the router's.

    >>> is_of_vllm("vllm:gpu_cache_usage_perc", ()), is_of_vllm("vllm:current_qps", ())
    (True, False)
    """
    family = family_of(name)
    if among_router_names and family in _ALSO_OF_ROUTERS:
        return False
    known = PRESENT | FORMER.keys() | {family_of(one) for one in shown if one.startswith(PREFIX)}
    return family in known or nearest(family, known, _MISSPELT) is not None


def are_of_an_engine(shown: Collection[str]) -> bool:
    """Whether a page with these names is an engine's: it has one that routers do not have.

    >>> are_of_an_engine(["vllm:num_requests_running", "vllm:current_qps"])
    False
    """
    own = (PRESENT | FORMER.keys()) - _OF_ROUTERS
    return any(name.startswith(PREFIX) and family_of(name) in own for name in shown)


def replacement_of(name: str) -> str | None:
    """What vLLM shows now in place of a former metric; None if nothing, or if it is none."""
    return FORMER.get(family_of(name))
