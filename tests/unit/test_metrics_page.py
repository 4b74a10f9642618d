"""Metrics pages and the engines on them."""

from __future__ import annotations

import math

import pytest

from paceline.foundation.servers.metrics_histogram import Histogram
from paceline.foundation.servers.metrics_page import PageUnreadable, parse_page
from paceline.operations.doctor.readings.engines import read_engines
from unit.doctor.gateways import page
from unit.doctor.simulated import SimulatedEngine


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!DOCTYPE html><html><body>Sign in</body></html>", "is an HTML page"),
        ('{"detail": "Not Found"}', "is JSON"),
        ("", "is empty"),
        ("Hello, this is a server\n", "begins with 'hello, this is a server"),
        ("# only a comment\n", "shows no metric"),
    ],
)
def test_a_text_that_is_no_metrics_page_says_what_it_looks_like(text: str, message: str) -> None:
    with pytest.raises(PageUnreadable, match=message):
        parse_page(text)


def test_the_kind_follows_from_the_names() -> None:
    assert parse_page("vllm:num_requests_running 1\n").kind == "vllm"
    assert parse_page('paceline_replica_state{replica="r0"} 2\n').kind == "paceline"
    assert parse_page("sglang:num_running_reqs 1\n").kind is None
    with_plugin = "paceline_engine_honours_draft_caps 1\nvllm:num_requests_running 1\n"
    assert parse_page(with_plugin).kind == "vllm"


def test_values_that_are_no_numbers_are_left_out() -> None:
    parsed = parse_page('a{b="1"} NaN\na{b="2"} 3\na{b="3"} +Inf\n')
    assert parsed.total("a") == 3
    assert parsed.total("a", b="1") is None


def test_a_histogram_is_summed_over_its_series() -> None:
    lines = [
        f'h_{part}{{engine="{engine}"{rest}}} {value}'
        for engine, (low, high, total) in {"0": (1, 4, 3.0), "1": (2, 2, 0.5)}.items()
        for part, rest, value in (
            ("bucket", ',le="0.5"', low), ("bucket", ',le="+Inf"', high), ("sum", "", total),
        )
    ]  # fmt: skip
    parsed = parse_page("\n".join(lines) + "\n")
    assert parsed.histogram("h") == Histogram((0.5, math.inf), (3.0, 6.0), 3.5)
    assert parsed.histogram("h", engine="0") == Histogram((0.5, math.inf), (1.0, 4.0), 3.0)
    assert parsed.histogram("other") is None


def test_a_malformed_histogram_is_none() -> None:
    assert parse_page('h_bucket{le="x"} 1\nh_sum 1\n').histogram("h") is None
    assert parse_page('h_bucket{le="1"} 1\nh_sum 1\n').histogram("h") is None  # no +Inf


def test_quantiles_are_known_within_a_bucket() -> None:
    histogram = Histogram((1.0, 2.0, math.inf), (50.0, 98.0, 100.0), 130.0)
    assert histogram.bucket_of(0.5) == (0.0, 1.0)
    assert histogram.bucket_of(0.51) == (1.0, 2.0)
    assert histogram.bucket_of(0.99) == (2.0, math.inf)
    assert Histogram((1.0, math.inf), (0.0, 0.0), 0.0).bucket_of(0.5) is None


def test_a_histogram_that_fell_has_no_difference() -> None:
    earlier = Histogram((1.0, math.inf), (5.0, 6.0), 4.0)
    later = Histogram((1.0, math.inf), (7.0, 9.0), 7.0)
    assert later.minus(earlier) == Histogram((1.0, math.inf), (2.0, 3.0), 3.0)
    assert earlier.minus(later) is None


def test_the_ranks_of_a_vllm_server_are_engines() -> None:
    engines = [SimulatedEngine(loads=(load,), name=str(load)) for load in (3, 5)]
    engines_read = read_engines(parse_page("".join(one.pages()[-1] for one in engines)), {}, 7.0)
    assert {name: one.num_running for name, one in engines_read.items()} == {
        "engine 3": 3.0,
        "engine 5": 5.0,
    }
    assert engines_read["engine 3"].at_s == 7.0
    assert len(engines_read["engine 5"].accepted_per_position_total) == 3


def test_an_engine_without_speculation_shows_no_drafts() -> None:
    text = SimulatedEngine(reached=()).pages()[-1]
    assert read_engines(parse_page(text), {})["engine 0"].drafts_total is None


def test_the_replicas_of_a_gateway_are_engines() -> None:
    state = {"policy": "fixed", "num_drafts_total": 7, "accepted_per_position_total": [4, 2]}
    replicas = {"r0": {}, "r1": {"paceline_replica_load_requests_running": 9.0}}
    engines = read_engines(parse_page(page(replicas, 5)), {"r0": state})
    assert engines["r1"].num_running == 9
    assert engines["r1"].policy is None
    assert engines["r0"].accepted_per_position_total == (4.0, 2.0)
    assert engines["r0"].policy == "fixed"


def test_a_governor_state_of_wrong_types_is_unknown() -> None:
    state = {"policy": 3, "num_drafts_total": "7", "accepted_per_position_total": {}}
    engine = read_engines(parse_page(page({"r0": {}}, 5)), {"r0": state})["r0"]
    assert (engine.policy, engine.drafts_total) == (None, None)
