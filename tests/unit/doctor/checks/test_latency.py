"""Checks of the time to first token and between tokens."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.operations.doctor.checks.latency import first_requests, prefill_stalls
from paceline.operations.doctor.values import CannotJudge, CostUnit, Evidence, Severity
from unit.doctor.gateways import observe_gateway
from unit.doctor.simulated import SimulatedEngine, observe_vllm


def test_slow_first_requests_of_a_new_server_are_a_remark() -> None:
    """2.4 s, then 0.05 s for each of ten requests."""
    engine = SimulatedEngine(answered_before=0, first_tokens_s=(2.4, *(0.05,) * 10))
    (finding,) = first_requests.CHECK.judge(observe_vllm(engine))
    assert (finding.id, finding.severity) == ("first-requests-slow", Severity.INFO)
    assert finding.cost.amount == pytest.approx(2350)
    assert finding.cost.share == pytest.approx(1 / 11)


@pytest.mark.parametrize(
    ("first_s", "later_s"),
    [(0.06, 0.05), (0.35, 0.2), (0.06, 0.01)],  # equal; less than three times; less than 100 ms
)
def test_similar_requests_are_no_finding(first_s: float, later_s: float) -> None:
    engine = SimulatedEngine(answered_before=0, first_tokens_s=(first_s, *(later_s,) * 10))
    assert not first_requests.CHECK.judge(observe_vllm(engine))


def test_the_first_requests_of_an_old_server_cannot_be_seen() -> None:
    with pytest.raises(CannotJudge, match="answered 100 requests before"):
        first_requests.CHECK.judge(observe_vllm(SimulatedEngine(first_tokens_s=(2.4, 0.05))))


def test_too_few_requests_cannot_be_compared() -> None:
    engine = SimulatedEngine(answered_before=0, first_tokens_s=(2.4, 0.05))
    with pytest.raises(CannotJudge, match="fewer than 5 requests"):
        first_requests.CHECK.judge(observe_vllm(engine))


def test_steps_that_prompts_make_long_are_found() -> None:
    """2 % of the steps take 300 ms, the others 21 to 25 ms."""
    engine = SimulatedEngine(slow_steps=0.02, prompt_tokens_per_s=2000)
    (finding,) = prefill_stalls.CHECK.judge(observe_vllm(engine))
    assert (finding.id, finding.severity) == ("prefill-stalls", Severity.WARNING)
    assert (
        finding.summary == "One step in a hundred takes 200 ms or more, the median at most 25 ms."
    )
    assert "max_num_batched_tokens" in finding.settings
    steps = [(engine.step_ms(load), load) for load in engine.loads]
    count = sum(load / step for step, load in steps)
    mean = sum(0.98 * load for _, load in steps) / count + 0.02 * 300
    # The slow steps have 6 ms of the mean; prompts that are spread evenly leave it as it is.
    assert finding.cost.unit is CostUnit.MS_AT_P99
    assert finding.cost.amount == pytest.approx(250 - mean)
    assert finding.cost.low == pytest.approx(200 - mean)
    assert finding.cost.high == pytest.approx(300 - mean)


@pytest.mark.parametrize(
    ("max_pause_ms", "severity"), [(300, Severity.INFO), (299, Severity.WARNING)]
)
def test_pauses_that_users_accept_are_a_remark(max_pause_ms: float, severity: Severity) -> None:
    """The histogram shows P99 between 200 and 300 ms."""
    engine = SimulatedEngine(slow_steps=0.02, prompt_tokens_per_s=2000)
    (finding,) = prefill_stalls.CHECK.judge(observe_vllm(engine, max_pause_ms=max_pause_ms))
    assert finding.severity is severity
    assert Evidence("accepted at p99", max_pause_ms, "ms") in finding.evidence


def test_a_single_pause_of_many_requests_is_no_finding() -> None:
    """At load 8 every step counts eight times: 2 % of 570 are less than two steps."""
    engine = SimulatedEngine(slow_steps=0.02, prompt_tokens_per_s=2000, loads=(8, 8))
    with pytest.raises(CannotJudge, match="fewer than 3 pauses"):
        prefill_stalls.CHECK.judge(observe_vllm(engine))
    longer = dataclasses.replace(engine, loads=(8,) * 8)
    assert prefill_stalls.CHECK.judge(observe_vllm(longer))


def test_prompts_from_the_cache_hold_nothing_up() -> None:
    engine = SimulatedEngine(slow_steps=0.03, prompt_tokens_per_s=2000)
    assert prefill_stalls.CHECK.judge(observe_vllm(engine))
    cached = dataclasses.replace(engine, cached_prompts=0.95)
    assert not prefill_stalls.CHECK.judge(observe_vllm(cached))


def test_requests_between_two_polls_of_a_gateway_count() -> None:
    """50 of 1000 steps are long: enough for 4 requests at a time, not for 20."""
    pages = (_gateway_page(100, r0=(0, 0)), _gateway_page(1100, r0=(950, 50)))
    assert prefill_stalls.CHECK.judge(observe_gateway({"r0": {}}, extra=pages))
    busy = {"r0": {"paceline_requests_in_flight": 20.0}}
    waiting = {"r0": {**busy["r0"], "paceline_replica_load_requests_waiting": 16.0}}
    assert prefill_stalls.CHECK.judge(observe_gateway(waiting, extra=pages))
    with pytest.raises(CannotJudge, match="fewer than 3 pauses"):
        prefill_stalls.CHECK.judge(observe_gateway(busy, extra=pages))


def test_even_steps_are_no_finding() -> None:
    assert not prefill_stalls.CHECK.judge(observe_vllm(SimulatedEngine(prompt_tokens_per_s=2000)))


def test_a_tail_that_costs_little_is_no_finding() -> None:
    """1.2 % of the steps take 300 ms: the 99th percentile does, but 21 to 25 ms is the mean."""
    engine = SimulatedEngine(slow_steps=0.012, prompt_tokens_per_s=2000, base_ms=18.0)
    assert not prefill_stalls.CHECK.judge(observe_vllm(engine))
    costly = dataclasses.replace(engine, slow_steps=0.03)
    assert prefill_stalls.CHECK.judge(observe_vllm(costly))


def test_long_steps_without_prompts_have_another_cause() -> None:
    assert not prefill_stalls.CHECK.judge(observe_vllm(SimulatedEngine(slow_steps=0.02)))


def test_few_steps_are_not_judged() -> None:
    with pytest.raises(CannotJudge, match="200 are needed"):
        prefill_stalls.CHECK.judge(observe_vllm(SimulatedEngine(loads=(1, 1))))


def _gateway_page(tokens: int, **replicas: tuple[int, int]) -> str:
    """By replica: steps of 20 ms, and of 250 ms."""
    name = "paceline_replica_inter_token_seconds"
    lines = [f"paceline_prompt_tokens_total {tokens}", f"paceline_output_tokens_total {tokens}"]
    for replica, (fast, slow) in replicas.items():
        counts = {"0.01": 0, "0.025": fast, "0.2": fast, "0.3": fast + slow, "+Inf": fast + slow}
        label = f'replica="{replica}"'
        lines += [f'{name}_bucket{{{label},le="{le}"}} {num}' for le, num in counts.items()]
        lines += [
            f"{name}_count{{{label}}} {fast + slow}",
            f"{name}_sum{{{label}}} {0.02 * fast + 0.25 * slow}",
        ]
    return "\n".join(lines) + "\n"


def test_a_gateway_shows_the_steps_of_each_replica() -> None:
    pages = (
        _gateway_page(100, r0=(1000, 0), r1=(1000, 0)),
        _gateway_page(1100, r0=(1950, 50), r1=(5000, 0), r2=(10, 1000)),
    )
    (finding,) = prefill_stalls.CHECK.judge(observe_gateway(extra=pages))
    assert (finding.id, finding.severity) == ("prefill-stalls", Severity.WARNING)
    assert finding.subject == "r0"
    assert "One step in a hundred of r0 takes 200 ms or more" in finding.summary
    mean_ms = 0.95 * 20 + 0.05 * 250
    assert finding.cost.amount == pytest.approx(250 - mean_ms)


def test_a_slow_replica_beside_a_fast_one_is_no_stall() -> None:
    pages = (
        _gateway_page(100, r0=(0, 0), r1=(0, 0)),
        _gateway_page(1100, r0=(9500, 0), r1=(0, 500)),
    )
    assert not prefill_stalls.CHECK.judge(observe_gateway(extra=pages))


def test_a_replica_that_restarted_is_not_judged() -> None:
    pages = (_gateway_page(100, r0=(1000, 50)), _gateway_page(1100, r0=(500, 40)))
    with pytest.raises(CannotJudge, match="does not show paceline_replica_inter_token_seconds"):
        prefill_stalls.CHECK.judge(observe_gateway(extra=pages))


def test_a_gateway_whose_replicas_report_no_steps_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="paceline_replica_inter_token_seconds"):
        prefill_stalls.CHECK.judge(observe_gateway(extra=(_gateway_page(1), _gateway_page(9))))
