"""Cost functions against computed step times, and the profiles that hold their figures."""

from __future__ import annotations

import doctest
from dataclasses import replace
from typing import Any

import pytest

from paceline.foundation.capacity.roofline import HardwareFigures, ModelFigures
from paceline.testing.policy_simulator.evaluation import summary
from paceline.testing.policy_simulator.machines import cost
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS, GraphSizes
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.machines.profiles import (
    load_profile,
    parse_profile,
    profile_names,
)
from paceline.testing.policy_simulator.machines.roofline import RooflineCost
from unit.policy_simulator.setups import linear, machine

SHAPE = StepShape(
    num_requests=4,
    verified_draft_tokens=8,
    prefill_tokens=3,
    context_tokens=2000,
    draft_passes=2,
    catch_up_tokens=5,
)


@pytest.mark.parametrize("module", [cost, summary])
def test_the_examples_in_the_docstrings_run(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_linear_cost_adds_up() -> None:
    """10 + 4 + 0.3 + 11 * 2 + 2 * 0.5 + 2 * (3 + 4 * 0.1) + 5 * 0.2 ms; 0.3 only with drafts."""
    function = linear(
        judge_s=0.0003, context_ktoken_s=0.0005, draft_request_s=0.0001, catch_up_token_s=0.0002
    )
    assert function.step_s(SHAPE) == pytest.approx(0.0451)
    assert function.step_s(replace(SHAPE, verified_draft_tokens=0)) == pytest.approx(0.0288)


def test_linear_cost_is_a_staircase_at_captured_sizes() -> None:
    """15 tokens padded to 16: one token more. 17 tokens are past the last size: not padded."""
    stairs = replace(linear(), graphs=GraphSizes((1, 8, 16)))
    assert stairs.step_s(SHAPE) == pytest.approx(linear().step_s(SHAPE) + 0.002)
    larger = replace(SHAPE, prefill_tokens=5)
    assert stairs.step_s(larger) == pytest.approx(linear().step_s(larger))


MODEL = ModelFigures(params=1e9, num_layers=10, hidden_size=1000, kv_bytes_per_token=1e4)
DRAFT = ModelFigures(params=1e8, num_layers=2, hidden_size=100, kv_bytes_per_token=1e3)
HARDWARE = HardwareFigures(
    tensor_parallel=1,
    bandwidth_bytes_per_s=2e12,
    bandwidth_fraction=0.5,
    flops_per_s=4e14,
    flops_fraction=0.5,
    all_reduce_latency_s=1e-5,
    all_reduce_bytes_per_s=1e11,
)


def roofline(hardware: HardwareFigures = HARDWARE, graphs: GraphSizes = NO_GRAPHS) -> RooflineCost:
    return RooflineCost(MODEL, DRAFT, hardware, 0.0, 0.001, 0.0005, graphs)


def test_a_small_batch_is_bound_by_bandwidth_and_a_large_one_by_arithmetic() -> None:
    """2 GB at 1 TB/s take 2 ms; 2 GFLOP a token at 200 TFLOP/s take as long for 200 tokens."""
    small = StepShape(100, 0, 0, 0, 0)
    assert roofline().step_s(small) == pytest.approx(0.001 + 0.002)
    assert roofline().step_s(replace(small, num_requests=400)) == pytest.approx(0.001 + 0.004)


def test_context_is_read_in_every_pass() -> None:
    """100,000 tokens of 10 kB: 1 ms; the draft's three passes 0.1 ms each, beside 0.2 + 0.5."""
    shape = StepShape(10, 30, 0, 100_000, 3)
    assert roofline().step_s(shape) == pytest.approx(0.001 + 0.003 + 3 * (0.0005 + 0.0003))


def test_eight_gpus_share_the_work_and_pay_for_their_links() -> None:
    """An eighth of 2 ms, and 20 all-reduces of 10 us and 100 * 2000 bytes at 100 GB/s (2 us)."""
    eight = roofline(replace(HARDWARE, tensor_parallel=8))
    shape = StepShape(100, 0, 0, 0, 0)
    assert eight.step_s(shape) == pytest.approx(0.001 + 0.00025 + 20 * 12e-6)


def test_the_first_draft_pass_sees_all_tokens_and_the_others_one_a_request() -> None:
    """100 requests, 3 drafts each: 400 tokens cost the draft 0.4 ms of arithmetic, 100 do not."""
    shape = StepShape(100, 300, 0, 0, 2)
    expected_s = 0.001 + 0.004 + (0.0005 + 0.0004) + (0.0005 + 0.0002)
    assert roofline().step_s(shape) == pytest.approx(expected_s)


def test_captured_sizes_pad_the_arithmetic() -> None:
    """300 tokens computed as 400."""
    stairs = roofline(graphs=GraphSizes((400,)))
    assert stairs.step_s(StepShape(300, 0, 0, 0, 0)) == pytest.approx(0.001 + 0.004)


GPU_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))


@pytest.mark.parametrize(
    ("tokens", "each", "found"),
    [
        (4, 4, (4, True)),
        (20, 4, (24, True)),
        (20, 5, (24, False)),  # length 4 was not captured
        (20, None, (24, False)),  # requests differ, or one is prefilling
        (520, 8, (520, False)),  # past the largest size
        (7, 1, (8, True)),
    ],
)
def test_a_step_finds_a_full_graph_if_its_length_was_captured(
    tokens: int, each: int | None, found: tuple[float, bool]
) -> None:
    assert GraphSizes(GPU_SIZES, draft_lengths=(0, 1, 3, 7)).find(tokens, each) == found


def test_outside_of_full_graphs_every_layer_takes_longer() -> None:
    """Ten layers; 8 requests at length 3 have a graph, at length 2 they are padded and slower."""
    graphs = GraphSizes(GPU_SIZES, draft_lengths=(0, 1, 3, 7))
    stairs = replace(roofline(graphs=graphs), piecewise_layer_s=1e-4)
    captured = StepShape(8, 24, 0, 0, 0, tokens_per_request=4)
    assert stairs.step_s(captured) == pytest.approx(roofline().step_s(captured))
    other = StepShape(8, 16, 0, 0, 0, tokens_per_request=3)
    assert stairs.step_s(other) == pytest.approx(roofline().step_s(other) + 0.001)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_has_its_sources_and_sensible_steps(name: str) -> None:
    """Every figure says where it is from; more work takes longer; a crowd is more efficient."""
    profile = load_profile(name)
    assert all(len(figure.source) > 5 for figure in profile.figures.values())
    step_s = profile.machine.cost.step_s
    alone, drafting = StepShape(1, 0, 0, 300, 0), StepShape(1, 8, 0, 300, 8)
    crowd = StepShape(profile.high_concurrency, 0, 0, 300 * profile.high_concurrency, 0)
    assert 0.002 < step_s(alone) < step_s(drafting) < 5 * step_s(alone)
    assert step_s(alone) < step_s(crowd) < profile.high_concurrency * step_s(alone)
    assert profile.low_concurrency < profile.middle_concurrency < profile.high_concurrency
    assert profile.high_concurrency <= profile.machine.max_num_seqs


@pytest.mark.parametrize(
    ("num_requests", "off_ms", "eight_ms"), [(1, 28, 48), (4, 32, 71), (8, 38, 106), (16, 47, 173)]
)
def test_the_cpu_twin_reproduces_its_table(
    num_requests: int, off_ms: float, eight_ms: float
) -> None:
    """Measured with one draft pass at length 0, and every draft verified at 8; within 4 %."""
    step_s = load_profile("cpu-twin").machine.cost.step_s
    off = step_s(StepShape(num_requests, 0, 0, 0, 1))
    eight = step_s(StepShape(num_requests, 8 * num_requests, 0, 0, 8))
    assert (1e3 * off, 1e3 * eight) == (
        pytest.approx(off_ms, rel=0.04),
        pytest.approx(eight_ms, rel=0.04),
    )


def _content() -> dict[str, Any]:
    names = ("base_s", "request_s", "judge_s", "token_s", "context_ktoken_s", "draft_pass_s")
    figures: dict[str, Any] = {
        name: {"value": 0.001, "source": "test"}
        for name in (*names, "draft_request_s", "catch_up_token_s")
    }
    for name in ("max_draft_length", "max_num_seqs", "token_budget"):
        figures[name] = {"value": 4, "source": "test"}
    return {
        "description": "a test",
        "cost": "linear",
        "drafter": "rests",
        "is_async": False,
        "graph_sizes": [1, "4..12/4"],
        "concurrency": {"low": 1, "middle": 2, "high": 4},
        "figures": figures,
    }


def test_a_profile_is_read_from_its_file() -> None:
    """Figures reach the cost function, ranges of graph sizes include both ends."""
    read = parse_profile("test", _content())
    assert read.machine.cost == linear(
        base_s=0.001,
        judge_s=0.001,
        token_s=0.001,
        context_ktoken_s=0.001,
        draft_pass_s=0.001,
        draft_request_s=0.001,
        catch_up_token_s=0.001,
        graphs=GraphSizes((1, 4, 8, 12)),
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"base_s": None}, "figure 'base_s' is missing"),
        ({"colour": {"value": 1, "source": "test"}}, "unknown figure 'colour'"),
        ({"base_s": {"value": 1}}, "needs a value and a source"),
        ({"base_s": {"value": 1, "source": ""}}, "needs a value and a source"),
    ],
)
def test_a_profile_that_is_not_in_order_is_refused(change: dict[str, Any], complaint: str) -> None:
    content = _content()
    figures = content["figures"] | change
    content["figures"] = {key: entry for key, entry in figures.items() if entry is not None}
    with pytest.raises(ValueError, match=complaint):
        parse_profile("test", content)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="profile is 'tpu'; it must be one of 72b-tp8-h100, 7b-h200"
    ):
        load_profile("tpu")
    content = _content() | {"cost": "cubic"}
    with pytest.raises(ValueError, match="cost is 'cubic'; it must be linear or roofline"):
        parse_profile("test", content)


def test_engines_that_cannot_be_are_refused() -> None:
    """Resting and n-gram drafters need synchronous scheduling; a budget holds all requests."""
    with pytest.raises(ValueError, match="needs synchronous scheduling"):
        machine("rests", is_async=True)
    with pytest.raises(ValueError, match="it must be at least max_num_seqs"):
        machine(token_budget=8, max_num_seqs=9)
    with pytest.raises(ValueError, match="prefill_chunk_tokens is 0; it must be at least 1"):
        machine().with_prefill_chunks(0)


def test_variants_of_a_machine() -> None:
    """Without speculation nothing is drafted; an n-gram drafter costs no pass, and an
    asynchronous engine gets the one that leaves it asynchronous."""
    on: Machine = machine("keeps_up", is_async=True)
    assert (on.draft_passes(0), on.draft_passes(3)) == (1, 3)
    assert on.without_speculation().max_draft_length == 0
    assert on.without_speculation().draft_passes(0) == 0
    assert on.with_ngram().drafter == "ngram_gpu"
    assert machine("stateless").with_ngram().drafter == "ngram"
    assert {m.with_ngram().draft_passes(8) for m in (on, machine("stateless"))} == {0}
    assert on.lengths == tuple(range(9))
    captured = replace(on, captured_lengths=(0, 1, 3, 7))
    assert captured.lengths == (0, 1, 3, 7)
    assert captured.without_speculation().lengths == (0,)
