"""Whatever a replica writes on its metrics page, the figures read from it are finite and few."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from paceline.runtime.gateway.fleet.dialects import DIALECTS, CounterRatio
from paceline.runtime.gateway.fleet.identity import read_revision
from paceline.runtime.gateway.fleet.load import parse_load
from paceline.runtime.gateway.fleet.metrics_page import MAX_SAMPLES, MAX_VALUE, MetricsPage
from paceline.runtime.gateway.fleet.prober import read_metrics
from paceline.runtime.gateway.fleet.status import LoadReading
from paceline.runtime.gateway.fleet.token_counters import TokenCounters, rates_between

VLLM = DIALECTS["vllm"]
NO_FIGURES = [
    *("1e308", "1e400", "1e16", "9007199254740993e3", "-1", "-0.5", "NaN", "nan", "+Inf", "inf"),
    *("Infinity", "0x10", "1_000", "1e", "e5", ".", "--1", "1,5", "1;", "\u0661"),
    *("½", "", "1" * 400),
]  # fmt: skip


def every_name() -> list[str]:
    """All metrics that are read from a vLLM server."""
    names = [VLLM.load.inter_token or ""]
    for fields in (VLLM.load, VLLM.counters):
        for sources in (getattr(fields, name) for name in fields.__dataclass_fields__):
            for source in sources if isinstance(sources, tuple) else ():
                parts = (
                    (source.numerator, source.denominator)
                    if isinstance(source, CounterRatio)
                    else (source,)
                )
                names += [part.name for part in parts]
    return names


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in numbers_in(inner)]
    if isinstance(value, list | tuple):
        return [number for inner in value for number in numbers_in(inner)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def check_bounded(reading: LoadReading) -> None:
    figures = asdict(reading) | {"read_at_s": 0.0}
    assert all(0 <= number <= MAX_VALUE for number in numbers_in(figures))
    assert reading.signals(reading.read_at_s, 1.0) is not None
    assert len(msgspec.json.encode(figures["load"]["inter_token"])) < 5_000


@pytest.mark.parametrize("text", NO_FIGURES)
def test_a_value_that_no_server_can_mean_counts_as_not_reported(text: str) -> None:
    page = "".join(f'{name}{{engine="0"}} {text}\n' for name in every_name())
    reading = read_metrics(page.encode(), VLLM)
    check_bounded(reading)
    assert reading.load == parse_load(MetricsPage(""), VLLM.load)
    assert reading.counters == TokenCounters()


@pytest.mark.parametrize("value", ["9007199254740992", "1e15", "8.9e15"])
def test_a_sum_that_no_server_can_mean_counts_as_not_reported(value: str) -> None:
    page = "".join(
        f'{name}{{engine="{engine}"}} {value}\n' for name in every_name() for engine in range(20)
    )
    reading = read_metrics(page.encode(), VLLM)
    check_bounded(reading)
    assert reading.load is not None
    assert reading.load.num_running is None
    assert reading.load.generation_tokens_total is None


def test_the_last_of_repeated_samples_counts_once() -> None:
    page = 'vllm:num_requests_running{engine="0"} 3\n' * 1000
    page += 'vllm:num_requests_running{engine="0"} 4 1700000000000\n'
    assert parse_load(MetricsPage(page), VLLM.load).num_running == 4


def test_times_and_exemplars_are_not_values() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 2 # {trace_id="a b"} 0.67 1.7e9\n'
        'vllm:num_requests_waiting{a="} 9",b="\\"} 8 {"} 1 -1700000000000\n'
        "vllm:num_preemptions_total\t5\r\n"
    )
    load = parse_load(MetricsPage(page), VLLM.load)
    assert (load.num_running, load.num_waiting, load.num_preemptions) == (2, 1, 5)


@pytest.mark.parametrize(
    "line",
    [
        'vllm:num_requests_running{engine="0" 3',
        'vllm:num_requests_running{engine="0"}3',
        'vllm:num_requests_running{engine="0} 3',
        "vllm:num_requests_running{engine=} } 3",
        'vllm:num_requests_running{a="' + "x" * 5000 + '"} 3',
        "vllm:num_requests_running" + " " * 5000 + "3",
        "vllm:num_requests_running\n3",
    ],
)
def test_a_line_that_is_no_sample_is_ignored(line: str) -> None:
    assert parse_load(MetricsPage(line + "\n"), VLLM.load).num_running is None


@pytest.mark.parametrize("num_label_sets", [MAX_SAMPLES + 1, 50_000])
def test_a_metric_with_too_many_label_sets_is_not_used(num_label_sets: int) -> None:
    page = "".join(
        f'{n}{{engine="{i}"}} 1\n' for n in every_name()[:4] for i in range(num_label_sets)
    )
    reading = read_metrics(page.encode(), VLLM)
    check_bounded(reading)
    assert reading.load is not None
    assert reading.load.num_running is None


def histogram(bounds: list[str]) -> str:
    name = VLLM.load.inter_token
    lines = [f'{name}_bucket{{le="{bound}"}} {i}\n' for i, bound in enumerate([*bounds, "+Inf"])]
    return "".join(lines) + f"{name}_sum 5\n"


@pytest.mark.parametrize(
    "bounds",
    [
        [f"{i}.5" for i in range(64)],
        [f"{i}.5" for i in range(100_000)],
        ["0." + "0" * 50 + "1"],
        ["1_0"],
        ["0x1"],
        ["inf"],
        ["1e400"],
        ["1.2.3"],
        ["1\\n"],
        ["\u0661"],
    ],
    ids=lambda bounds: f"{len(bounds)} of {bounds[0][:8]}",
)  # fmt: skip
def test_a_histogram_of_too_many_or_strange_bounds_is_left_out(bounds: list[str]) -> None:
    assert parse_load(MetricsPage(histogram(bounds)), VLLM.load).inter_token is None


def test_a_histogram_of_63_bounds_is_reported() -> None:
    inter_token = parse_load(MetricsPage(histogram([f"{i}.5" for i in range(63)])), VLLM.load)
    assert inter_token.inter_token is not None
    assert len(inter_token.inter_token.buckets) == 64


@pytest.mark.parametrize(
    "part",
    ["}", "} ", '{"', '="', '\\"', 'revision="a",', "a,", " ", "\t", "1", "\n", "{a=", "\u00a0"],
)
def test_the_time_for_a_page_is_linear_in_its_length(part: str) -> None:
    """With patterns that go back, one of these pages takes hours."""
    names = [*every_name(), "paceline_engine_revision_info", "paceline_engine_honours_draft_caps"]
    page = "".join(f"{name}{{{part * (300_000 // len(part))}\n" for name in names)
    check_bounded(read_metrics(page.encode(), VLLM))


@pytest.mark.parametrize(
    "counters",
    [
        TokenCounters(100.0 + 1e-300, 1e9, 40.0 + 1e-300, 1e9),
        TokenCounters(100.5, 1e15, 40.5, 1e15),
        TokenCounters(1e-300, 1e15, 1e-300, 1e15),
        TokenCounters(0.0, 0.0, 0.0, 0.0),
    ],
)
def test_rates_stay_finite_whatever_the_counters_do(counters: TokenCounters) -> None:
    rates = rates_between(TokenCounters(100.0, 1.0, 40.0, 10.0), counters)
    assert all(0 <= number <= MAX_VALUE for number in numbers_in(asdict(rates)))


def test_a_label_that_quotes_a_metric_is_none() -> None:
    page = 'x{a="vllm:spec_decode_ paceline_engine_revision_info{revision=\\"b\\"} 1"} 1\n'
    assert read_metrics(page.encode(), VLLM).speculation.drafts is None
    assert read_revision(MetricsPage(page)) is None
