"""Table of the differences between servers that speak the OpenAI API.

One entry per server: its health path, the paths and names of its load metrics, its capabilities.
`load` reads the metrics, `error_bodies` the errors. A test pins every name to a documented or
recorded sample; `tests/unit/gateway/fleet/data/dialects/README.md` lists the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
MODELS_PATH = "/v1/models"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric; with a label, only its series with that label."""

    name: str
    label: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CounterRatio:
    """One counter divided by another."""

    numerator: Series
    denominator: Series


@dataclass(frozen=True, slots=True)
class LoadNames:
    """The metric for each field of `ReplicaLoad`; of several, the first one on the page counts."""

    num_running: tuple[Series, ...] = ()
    num_waiting: tuple[Series, ...] = ()
    kv_usage_fraction: tuple[Series, ...] = ()
    prefix_hit_fraction: tuple[Series | CounterRatio, ...] = ()
    num_preemptions: tuple[Series, ...] = ()
    generation_tokens_total: tuple[Series, ...] = ()
    activity: tuple[Series, ...] = ()
    """Metrics of which at least one changes while the engine works; the first must be on the page.
    Empty for servers that count a request's tokens only when it ends: they would seem to hang
    during every long answer."""
    inter_token: str | None = None
    """Histogram of the seconds between two chunks of tokens of a request, without _bucket."""


@dataclass(frozen=True, slots=True)
class CounterNames:
    """The metric for each field of `TokenCounters`, in the same way."""

    generation_tokens: tuple[Series, ...] = ()
    inter_token_s: tuple[Series, ...] = ()
    drafted_tokens: tuple[Series, ...] = ()
    accepted_tokens: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server."""

    name: str
    health_path: str = "/health"
    """Returns 200 when the server can take requests."""
    metrics_path: str | None = "/metrics"
    """Prometheus text; None when the server has no metrics."""
    load: LoadNames = LoadNames()
    counters: CounterNames = CounterNames()
    token_id_paths: frozenset[str] = frozenset()
    """Routes whose streams carry token ids when a request sets `return_token_ids`. Token-exact
    continuation needs them."""
    aborts_on_disconnect: bool | None = None
    """Whether closing the connection ends the generation; None when that is unknown."""
    max_in_flight: int | None = None
    """Requests that it computes at a time, whatever its settings; None when that depends."""


_VLLM = Dialect(
    name="vllm",
    load=LoadNames(
        num_running=(Series("vllm:num_requests_running"),),
        num_waiting=(Series("vllm:num_requests_waiting"),),
        # gpu_cache_usage_perc became kv_cache_usage_perc in 0.10; both are fractions, not per cent
        kv_usage_fraction=(
            Series("vllm:kv_cache_usage_perc"),
            Series("vllm:gpu_cache_usage_perc"),
        ),
        prefix_hit_fraction=(
            CounterRatio(
                Series("vllm:prefix_cache_hits_total"), Series("vllm:prefix_cache_queries_total")
            ),
            CounterRatio(
                Series("vllm:gpu_prefix_cache_hits_total"),
                Series("vllm:gpu_prefix_cache_queries_total"),
            ),
            Series("vllm:gpu_prefix_cache_hit_rate"),  # the engine before V1
        ),
        num_preemptions=(Series("vllm:num_preemptions_total"),),
        generation_tokens_total=(Series("vllm:generation_tokens_total"),),
        # the use of the KV cache shows that a long prompt is computed, piece by piece
        activity=(
            Series("vllm:generation_tokens_total"),
            Series("vllm:kv_cache_usage_perc"),
            Series("vllm:gpu_cache_usage_perc"),
            Series("vllm:num_preemptions_total"),
        ),
        inter_token="vllm:inter_token_latency_seconds",
    ),
    counters=CounterNames(
        generation_tokens=(Series("vllm:generation_tokens_total"),),
        inter_token_s=(
            Series("vllm:inter_token_latency_seconds_sum"),
            Series("vllm:time_per_output_token_seconds_sum"),  # until 0.10
        ),
        drafted_tokens=(Series("vllm:spec_decode_num_draft_tokens_total"),),
        accepted_tokens=(Series("vllm:spec_decode_num_accepted_tokens_total"),),
    ),
    token_id_paths=frozenset({CHAT_PATH, COMPLETIONS_PATH}),
    aborts_on_disconnect=True,
)

_SGLANG = Dialect(
    name="sglang",  # has metrics only with --enable-metrics
    load=LoadNames(
        num_running=(Series("sglang:num_running_reqs"),),
        num_waiting=(Series("sglang:num_queue_reqs"),),
        kv_usage_fraction=(Series("sglang:token_usage"),),
        prefix_hit_fraction=(Series("sglang:cache_hit_rate"),),
        generation_tokens_total=(Series("sglang:generation_tokens_total"),),
        activity=(Series("sglang:realtime_tokens_total"),),
    ),
    counters=CounterNames(
        generation_tokens=(Series("sglang:inter_token_latency_seconds_count"),),
        inter_token_s=(Series("sglang:inter_token_latency_seconds_sum"),),
    ),
    # sglang #30917: completions can stream token ids, chat completions refuse the field
    token_id_paths=frozenset({COMPLETIONS_PATH}),
    aborts_on_disconnect=True,  # within about two seconds: sglang #457, #36552
)

_TRTLLM = Dialect(
    name="trtllm",
    # /metrics is JSON and is emptied by each read: polling it would take data from other readers
    metrics_path="/prometheus/metrics",
    load=LoadNames(
        num_running=(Series("trtllm_num_requests_running"),),
        num_waiting=(Series("trtllm_num_requests_waiting"),),
        kv_usage_fraction=(Series("trtllm_kv_cache_utilization"),),
        prefix_hit_fraction=(Series("trtllm_kv_cache_hit_rate"),),
        generation_tokens_total=(Series("trtllm_generation_tokens_total"),),
    ),
    aborts_on_disconnect=True,  # it checks once a second
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
        activity=(Series("vllm:generation_tokens_total"),),  # it counts in every step
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
    name="llamacpp",  # has metrics only with --metrics
    load=LoadNames(
        num_running=(Series("llamacpp:requests_processing"),),
        num_waiting=(Series("llamacpp:requests_deferred"),),
        kv_usage_fraction=(Series("llamacpp:kv_cache_usage_ratio"),),  # removed in May 2025
        generation_tokens_total=(Series("llamacpp:tokens_predicted_total"),),
        activity=(Series("llamacpp:n_decode_total"),),
    ),
    counters=CounterNames(
        generation_tokens=(Series("llamacpp:tokens_predicted_total"),),
        inter_token_s=(Series("llamacpp:tokens_predicted_seconds_total"),),
        drafted_tokens=(Series("llamacpp:spec_decode_num_draft_tokens_total"),),
        accepted_tokens=(Series("llamacpp:spec_decode_num_accepted_tokens_total"),),
    ),
    # 0c1e570 (October 2026) ends a stream, and computes a whole answer to its end. Reports of other
    # releases differ: llama.cpp #4911, #11720, #24496.
    aborts_on_disconnect=None,
)

_LLAMACPP_PYTHON = Dialect(
    name="llamacpp-python",
    # Any request that needs the model, /v1/models included, interrupts the stream that it computes,
    # or waits for its end with --interrupt_requests false.
    health_path="/docs",
    metrics_path=None,
    aborts_on_disconnect=True,
    max_in_flight=1,
)

_OPENAI = Dialect(name="openai", health_path=MODELS_PATH, metrics_path=None)
"""Any other server: only what OpenAI's API reference specifies."""

_ALL = (_VLLM, _SGLANG, _TRTLLM, _TRITON, _TGI, _LLAMACPP, _LLAMACPP_PYTHON, _OPENAI)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
