"""Acceptance from counters before and after, in vLLM's and in Paceline's form."""

import pytest

from paceline.workbench.bench.results.speculation import (
    SpeculationCounters,
    compare_counters,
    counters_from_governor,
    counters_from_metrics,
    governor_states,
)

VLLM_PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a b"} 40.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="a b"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a b"} 1.2e+02
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="a b"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="1"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="2"} 10.0
vllm:num_requests_running{engine="0"} 3.0
"""


def test_vllm_counters_are_read_from_its_metrics() -> None:
    assert counters_from_metrics(VLLM_PAGE) == SpeculationCounters(120, 60, 40, (30, 20, 10))


def test_paceline_counters_are_summed_over_replicas() -> None:
    page = (
        'paceline_governor_drafted_tokens_total{replica="0"} 10\n'
        'paceline_governor_drafted_tokens_total{replica="1"} 30\n'
        'paceline_governor_accepted_tokens_total{replica="0"} 5\n'
        'paceline_governor_accepted_tokens_total{replica="1"} 6\n'
    )
    assert counters_from_metrics(page) == SpeculationCounters(40, 11, None, None)


def test_a_page_without_speculation_has_no_counters() -> None:
    assert counters_from_metrics("vllm:num_requests_running 3.0\n") is None
    assert counters_from_metrics("<html>not metrics</html>") is None
    assert counters_from_governor({"detail": "Not Found"}) is None


def test_governor_states_are_found_however_replicas_are_wrapped() -> None:
    state = {
        "drafted_tokens_total": 10,
        "accepted_tokens_total": 4,
        "num_drafts_total": 5,
        "accepted_per_position_total": [3, 1],
        "policy": "goodput",
    }
    document = {"replicas": [{"name": "0", "state": state}, {"name": "1", "state": state}]}
    assert counters_from_governor(document) == SpeculationCounters(20, 8, 10, (6, 2))
    by_name = {"replicas": {"0": state, "1": state}}
    assert counters_from_governor(by_name) == SpeculationCounters(20, 8, 10, (6, 2))
    assert counters_from_governor(state) == SpeculationCounters(10, 4, 5, (3, 1))
    assert [s["policy"] for s in governor_states(document)] == ["goodput", "goodput"]


def test_acceptance_is_the_difference_of_two_readings() -> None:
    """30 of 60 drafted in 20 drafts: rate 0.5, length 1 + 30/20; positions 20/20 and 10/20."""
    speculation = compare_counters(
        SpeculationCounters(100, 40, 30, (25, 15)),
        SpeculationCounters(160, 70, 50, (45, 25)),
        "page",
    )
    assert speculation.acceptance_rate == 0.5
    assert speculation.acceptance_length == 2.5
    assert speculation.accepted_per_position_fraction == (1.0, 0.5)
    assert speculation.note is None


def test_nothing_drafted_has_no_acceptance() -> None:
    same = SpeculationCounters(100, 40, 30, None)
    speculation = compare_counters(same, same, "page")
    assert speculation.acceptance_rate is None
    assert speculation.acceptance_length is None
    assert speculation.drafted_tokens == 0
    assert speculation.note == "nothing was drafted in the window"


@pytest.mark.parametrize(
    "after",
    [
        SpeculationCounters(5, 2, 1, None),
        SpeculationCounters(200, 39, 50, None),
        SpeculationCounters(200, 80, 29, None),
    ],
)
def test_counters_that_fall_make_acceptance_unknown(after: SpeculationCounters) -> None:
    """An engine that restarts in the window begins at 0 again."""
    speculation = compare_counters(SpeculationCounters(100, 40, 30, None), after, "page")
    assert speculation.acceptance_rate is None
    assert speculation.note is not None
    assert "restarted" in speculation.note
