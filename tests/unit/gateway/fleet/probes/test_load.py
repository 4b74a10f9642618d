"""Metrics pages of other servers, on samples whose sources `data/dialects/README.md` names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.gateway.fleet.dialects import DIALECTS, CounterRatio, Series
from paceline.runtime.gateway.fleet.load import InterTokenTimes, ReplicaLoad, parse_load
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage

DATA = Path(__file__).parents[1] / "data" / "dialects"


def load_of(dialect: str, *samples: str) -> ReplicaLoad:
    page = "".join((DATA / f"{sample}.txt").read_text() for sample in samples)
    return parse_load(MetricsPage(page), DIALECTS[dialect].load)


@pytest.mark.parametrize(
    ("dialect", "samples", "load"),
    [
        ("vllm", ["vllm-0.4"], ReplicaLoad(0, 0, 0.0, None, 0, 7)),
        ("vllm", ["vllm-0.8"], ReplicaLoad(0, 0, 0.0, None, None, None)),
        (
            "vllm",
            ["vllm-0.4", "vllm-counters"],
            ReplicaLoad(0, 0, 0.0, pytest.approx(64 / 117), 0, 7),
        ),
        ("vllm", ["vllm-0.10"], ReplicaLoad(None, None, pytest.approx(9.75010481363281e-06), 0.0)),
        ("vllm", ["vllm-0.32"], ReplicaLoad(0, 0, 0.0, pytest.approx(512 / 1122), 0, 166)),
        (
            "sglang",
            ["sglang"],
            ReplicaLoad(162, 2826, 0.28, pytest.approx(0.007507552643049313), None, 7_557_572),
        ),
        ("triton", ["triton-trtllm"], ReplicaLoad(1, 1, 0.4875, None, None, None)),
        ("triton", ["triton-vllm"], ReplicaLoad(None, None, None, None, None, 16)),
        ("tgi", ["tgi"], ReplicaLoad(0, 0, None, None, None, None)),
        ("llamacpp", ["llamacpp"], ReplicaLoad(0, 0, 0.491063, None, None, 3469)),
    ],
)
def test_the_load_is_read_from_the_page_of_each_server(
    dialect: str, samples: list[str], load: ReplicaLoad
) -> None:
    assert replace(load_of(dialect, *samples), activity=None) == load


@pytest.mark.parametrize(
    ("dialect", "sample", "activity"),
    [
        ("vllm", "vllm-0.32", (166.0, 0.0, 0.0)),
        ("vllm", "vllm-0.10", None),  # a cache alone stands still for many tokens
        ("sglang", "sglang", None),
        ("tgi", "tgi", None),
    ],
)
def test_figures_that_move_while_the_engine_works(
    dialect: str, sample: str, activity: tuple[float, ...] | None
) -> None:
    """Other servers count a request's output tokens when it ends, which shows nothing before."""
    assert load_of(dialect, sample).activity == activity


def test_a_server_that_counts_its_steps_shows_that_it_works() -> None:
    page = "llamacpp:tokens_predicted_total 12\nllamacpp:n_decode_total 34\n"
    assert parse_load(MetricsPage(page), DIALECTS["llamacpp"].load).activity == (34.0,)
    page = (
        'sglang:generation_tokens_total{is_streaming="true"} 9.0\n'
        'sglang:realtime_tokens_total{mode="prefill_compute"} 5.0\n'
        'sglang:realtime_tokens_total{mode="decode"} 7.0\n'
    )
    assert parse_load(MetricsPage(page), DIALECTS["sglang"].load).activity == (5.0, 7.0)


@pytest.mark.parametrize(
    ("dialect", "names"), [("trtllm", "trtllm-names"), ("llamacpp", "llamacpp-2026-names")]
)
def test_every_metric_name_in_use_is_documented(dialect: str, names: str) -> None:
    """For servers of which no current metrics page with values was found."""
    documented = set((DATA / f"{names}.txt").read_text().split())
    used = {series.name for series in _series(dialect)} - {"llamacpp:kv_cache_usage_ratio"}
    assert used <= documented


def test_output_tokens_of_tgi_are_the_sum_of_a_documented_histogram() -> None:
    documented = set((DATA / "tgi-names.txt").read_text().split())
    assert {series.name.removesuffix("_sum") for series in _series("tgi")} == documented


def _series(dialect: str) -> list[Series]:
    names = DIALECTS[dialect].load
    fields = names.__dataclass_fields__.keys() - {"inter_token"}  # a name, of vLLM alone
    figures = [getattr(names, field) for field in fields]
    found: list[Series] = []
    for source in (source for figure in figures for source in figure):
        found += (
            [source.numerator, source.denominator] if isinstance(source, CounterRatio) else [source]
        )
    return found


def test_counts_of_several_engines_are_summed_and_the_fullest_cache_is_used() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    load = parse_load(MetricsPage(page), DIALECTS["vllm"].load)
    assert (load.num_running, load.kv_usage_fraction) == (7, 0.9)


def test_current_metric_names_win_over_older_ones() -> None:
    page = "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.7\n"
    assert parse_load(MetricsPage(page), DIALECTS["vllm"].load).kv_usage_fraction == 0.7


def test_a_metric_is_not_confused_with_a_longer_name() -> None:
    """vLLM has num_requests_waiting and num_requests_waiting_by_reason."""
    page = (
        'vllm:num_requests_waiting_by_reason{reason="capacity"} 5.0\n'
        'vllm:num_requests_waiting{model_name="a}b, c=\\"d"} 2.0 1700000000000\n'
    )
    assert parse_load(MetricsPage(page), DIALECTS["vllm"].load).num_waiting == 2


@pytest.mark.parametrize("value", ["NaN", "-1.0", "+Inf", "x", ""])
def test_a_value_that_is_not_a_number_is_ignored(value: str) -> None:
    page = f"vllm:num_requests_running {value}\nvllm:kv_cache_usage_perc {value}\n"
    assert parse_load(MetricsPage(page), DIALECTS["vllm"].load) == ReplicaLoad()


def test_a_cache_without_queries_has_no_hit_rate() -> None:
    page = "vllm:prefix_cache_queries_total 0.0\nvllm:prefix_cache_hits_total 0.0\n"
    assert parse_load(MetricsPage(page), DIALECTS["vllm"].load).prefix_hit_fraction is None


_INTER_TOKEN = """\
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 3.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025",model_name="m"} 5.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 6.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 6.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.5
"""


def test_the_times_between_tokens_are_summed_over_engines() -> None:
    """The order of labels is the server's."""
    other = _INTER_TOKEN.replace('engine="0",', 'engine="1",').replace(" 6.0", " 7.0")
    load = parse_load(MetricsPage(_INTER_TOKEN + other), DIALECTS["vllm"].load)
    assert load.inter_token == InterTokenTimes((("0.01", 6.0), ("0.025", 10.0), ("+Inf", 13.0)), 1)


@pytest.mark.parametrize(
    "page",
    [
        "vllm:num_requests_running 1.0\n",
        _INTER_TOKEN.replace('le="+Inf"', 'le="1.0"'),
        _INTER_TOKEN.replace("le=", "ge="),
        _INTER_TOKEN.replace('le="0.01"', 'le="abc"'),
        _INTER_TOKEN.replace('le="0.01"', 'le="-1"'),
        _INTER_TOKEN.replace('le="0.01"', 'le="nan"'),
        _INTER_TOKEN.replace('le="0.01"', 'le="0.03"'),
        _INTER_TOKEN.replace('le="0.025"', 'le="+Inf"').replace(
            '"+Inf",model_name="m"} 6', '"9"} 6'
        ),
        *(
            _INTER_TOKEN.replace('le="+Inf"', f'le="{bound}"')
            for bound in ("9e999", "1e309", "9" * 20 + "e290", "Inf", "+inf", "Infinity", "")
        ),
        _INTER_TOKEN.replace('le="0.025"', 'le="1e309"'),
        _INTER_TOKEN.replace(" 3.0", " 5.5"),
        _INTER_TOKEN.replace(" 6.0", " NaN"),
        _INTER_TOKEN.replace("_seconds_sum", "_seconds_total"),
    ],
)
def test_what_is_no_whole_histogram_is_not_reported(page: str) -> None:
    assert parse_load(MetricsPage(page), DIALECTS["vllm"].load).inter_token is None
