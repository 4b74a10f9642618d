"""How do the servers that speak the OpenAI API differ?

A table, one entry per server: where it says that it is well, where and under which names it shows
its load, what it can do besides. Reading the pages is for `load`, the errors for `error_bodies`.
Every name here is pinned by a test on a documented or recorded sample, listed with its source in
`tests/unit/gateway/fleet/data/dialects/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
MODELS_PATH = "/v1/models"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric; with a label, only the series that carry it."""

    name: str
    label: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """One counter as a part of another."""

    part: Series
    whole: Series


@dataclass(frozen=True, slots=True)
class LoadNames:
    """Where each figure of a `ReplicaLoad` stands; of several the first that is on the page."""

    num_running: tuple[Series, ...] = ()
    num_waiting: tuple[Series, ...] = ()
    kv_usage_fraction: tuple[Series, ...] = ()
    prefix_hit_fraction: tuple[Series | Share, ...] = ()
    num_preemptions: tuple[Series, ...] = ()
    generation_tokens_total: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server."""

    name: str
    health_path: str = "/health"
    """Answers 200 when the server can take requests."""
    metrics_path: str | None = "/metrics"
    """Prometheus text; None when there is none."""
    load: LoadNames = LoadNames()
    token_id_paths: frozenset[str] = frozenset()
    """Routes whose streams carry token ids on `return_token_ids`: what a token-exact continuation
    needs."""
    aborts_on_disconnect: bool | None = None
    """Whether closing the connection ends the generation; None when nothing is known of it."""


_VLLM = Dialect(
    name="vllm",
    load=LoadNames(
        num_running=(Series("vllm:num_requests_running"),),
        num_waiting=(Series("vllm:num_requests_waiting"),),
        # gpu_cache_usage_perc became kv_cache_usage_perc in 0.10; both are shares, not per cent
        kv_usage_fraction=(
            Series("vllm:kv_cache_usage_perc"),
            Series("vllm:gpu_cache_usage_perc"),
        ),
        prefix_hit_fraction=(
            Share(
                Series("vllm:prefix_cache_hits_total"), Series("vllm:prefix_cache_queries_total")
            ),
            Share(
                Series("vllm:gpu_prefix_cache_hits_total"),
                Series("vllm:gpu_prefix_cache_queries_total"),
            ),
            Series("vllm:gpu_prefix_cache_hit_rate"),  # the engine before V1
        ),
        num_preemptions=(Series("vllm:num_preemptions_total"),),
        generation_tokens_total=(Series("vllm:generation_tokens_total"),),
    ),
    token_id_paths=frozenset({CHAT_PATH, COMPLETIONS_PATH}),
    aborts_on_disconnect=True,
)

_SGLANG = Dialect(
    name="sglang",  # shows metrics only with --enable-metrics
    load=LoadNames(
        num_running=(Series("sglang:num_running_reqs"),),
        num_waiting=(Series("sglang:num_queue_reqs"),),
        kv_usage_fraction=(Series("sglang:token_usage"),),
        prefix_hit_fraction=(Series("sglang:cache_hit_rate"),),
        generation_tokens_total=(Series("sglang:generation_tokens_total"),),
    ),
    # sglang #30917: streamed ids on completions; streamed chats refuse the field
    token_id_paths=frozenset({COMPLETIONS_PATH}),
    aborts_on_disconnect=True,  # after about two seconds: sglang #457, #36552
)

_TRTLLM = Dialect(
    name="trtllm",
    # /metrics is JSON and empties itself when it is read, so that a poll would rob other readers
    metrics_path="/prometheus/metrics",
    load=LoadNames(
        num_running=(Series("trtllm_num_requests_running"),),
        num_waiting=(Series("trtllm_num_requests_waiting"),),
        kv_usage_fraction=(Series("trtllm_kv_cache_utilization"),),
        prefix_hit_fraction=(Series("trtllm_kv_cache_hit_rate"),),
        generation_tokens_total=(Series("trtllm_generation_tokens_total"),),
    ),
    aborts_on_disconnect=True,  # it looks once a second
)

_TRITON_REQUESTS = "nv_trt_llm_request_metrics"

_TRITON = Dialect(
    name="triton",
    health_path="/health/ready",
    load=LoadNames(
        num_running=(Series(_TRITON_REQUESTS, ("request_type", "scheduled")),),
        num_waiting=(
            Series(_TRITON_REQUESTS, ("request_type", "waiting")),
            Series("nv_inference_pending_request_count"),
        ),
        kv_usage_fraction=(
            Series("nv_trt_llm_kv_cache_block_metrics", ("kv_cache_block_type", "fraction")),
        ),
        generation_tokens_total=(Series("vllm:generation_tokens_total"),),  # the vLLM backend
    ),
)

_TGI = Dialect(
    name="tgi",
    load=LoadNames(
        num_running=(Series("tgi_batch_current_size"),),
        num_waiting=(Series("tgi_queue_size"),),
        generation_tokens_total=(Series("tgi_request_generated_tokens_sum"),),
    ),
    aborts_on_disconnect=True,  # text-generation-inference #495
)

_LLAMACPP = Dialect(
    name="llamacpp",  # shows metrics only with --metrics
    load=LoadNames(
        num_running=(Series("llamacpp:requests_processing"),),
        num_waiting=(Series("llamacpp:requests_deferred"),),
        kv_usage_fraction=(Series("llamacpp:kv_cache_usage_ratio"),),  # gone since May 2025
        generation_tokens_total=(Series("llamacpp:tokens_predicted_total"),),
    ),
    aborts_on_disconnect=None,  # reports differ by release: llama.cpp #4911, #11720, #24496
)

_OPENAI = Dialect(name="openai", health_path=MODELS_PATH, metrics_path=None)
"""Any other server: only what OpenAI's description promises."""

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (_VLLM, _SGLANG, _TRTLLM, _TRITON, _TGI, _LLAMACPP, _OPENAI)
}
