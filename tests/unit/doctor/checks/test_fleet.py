"""Checks of replicas and of how requests end."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.operations.doctor.checks.fleet import (
    failing_requests,
    imbalance,
    restarts,
    unavailable,
)
from paceline.operations.doctor.values import Basis, CannotJudge, Severity
from unit.doctor.gateways import CHANGES, TOKENS, observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

_RUNNING = "paceline_replica_load_requests_running"
BUSY = {"r0": {_RUNNING: 12.0}, "r1": {_RUNNING: 2.0}}


def test_a_busier_replica_is_found_with_what_its_tokens_cost() -> None:
    entries = (
        {"name": "r0", "seconds_per_token": 0.05},
        {"name": "r1", "seconds_per_token": 0.02},
    )
    (finding,) = imbalance.CHECK.judge(observe_gateway(BUSY, entries=entries))
    assert (finding.id, finding.subject) == ("load-imbalance", "r0")
    assert finding.cost.amount == pytest.approx(30)
    assert finding.cost.share == pytest.approx(0.6)


def test_without_times_the_cost_of_imbalance_is_unknown() -> None:
    (finding,) = imbalance.CHECK.judge(observe_gateway(BUSY))
    assert finding.cost.basis is Basis.UNKNOWN


def test_a_busier_rank_of_a_vllm_server_is_found() -> None:
    busy = SimulatedEngine(loads=(12,) * 10)
    idle = SimulatedEngine(loads=(2,) * 10)
    (finding,) = imbalance.CHECK.judge(observe_vllm(busy, idle))
    assert finding.subject == "engine 0"


@pytest.mark.parametrize(
    "loads",
    [(4.0, 4.0), (3.0, 1.0), (24.0, 16.0)],  # two requests apart; 1.2 times the mean
)
def test_even_loads_are_no_finding(loads: tuple[float, float]) -> None:
    replicas = {f"r{index}": {_RUNNING: load} for index, load in enumerate(loads)}
    assert not imbalance.CHECK.judge(observe_gateway(replicas))


def test_replicas_of_different_models_are_not_compared() -> None:
    """12 and 2 requests on replicas of two models; a third one is like the second."""
    replicas = {**BUSY, "r2": {_RUNNING: 2.0}}
    entries = [{"name": name, "model": name[0]} for name in ("r0", "r1", "r2")]
    assert imbalance.CHECK.judge(observe_gateway(replicas, entries=entries))
    entries[0]["model"] = "other"
    assert not imbalance.CHECK.judge(observe_gateway(replicas, entries=entries))
    with pytest.raises(CannotJudge, match="two engines of one model"):
        imbalance.CHECK.judge(observe_gateway(BUSY, entries=entries))


def test_one_replica_cannot_be_compared() -> None:
    with pytest.raises(CannotJudge, match="fewer than two"):
        imbalance.CHECK.judge(observe_vllm())


def test_a_replica_that_is_down_costs_its_part() -> None:
    entries = ({"name": "r1", "reason": "connection refused"},)
    observation = observe_gateway({"r0": {}, "r1": {"paceline_replica_state": 0}}, entries=entries)
    (finding,) = unavailable.CHECK.judge(observation)
    assert finding.severity is Severity.WARNING
    assert finding.summary == "r1 is down: 1 of 2 replicas of its model take requests."
    assert finding.cost.amount == pytest.approx(50)
    assert ("reason", "connection refused") in {(one.name, one.value) for one in finding.evidence}


def test_the_last_replica_of_a_model_is_critical_whatever_other_models_have() -> None:
    replicas: dict[str, dict[str, float | None]] = {
        "a0": {"paceline_replica_state": 0}, "b0": {}, "b1": {},
    }  # fmt: skip
    entries = [{"name": name, "model": name[0]} for name in replicas]
    (finding,) = unavailable.CHECK.judge(observe_gateway(replicas, entries=entries))
    assert finding.severity is Severity.CRITICAL
    assert finding.summary == "a0 is down: 0 of 1 replicas of its model take requests."
    assert finding.cost.amount == pytest.approx(100 / 3)


def test_a_replica_whose_model_is_not_known_yet_may_have_peers() -> None:
    replicas: dict[str, dict[str, float | None]] = {"a0": {"paceline_replica_state": 0}, "b0": {}}
    entries = [{"name": "a0", "model": None}, {"name": "b0", "model": "m"}]
    (finding,) = unavailable.CHECK.judge(observe_gateway(replicas, entries=entries))
    assert finding.severity is Severity.WARNING


def test_a_draining_replica_takes_no_requests_either() -> None:
    replicas: dict[str, dict[str, float | None]] = {
        "r0": {"paceline_replica_state": 0}, "r1": {"paceline_replica_state": 3},
    }  # fmt: skip
    (finding,) = unavailable.CHECK.judge(observe_gateway(replicas))
    assert (finding.subject, finding.severity) == ("r0", Severity.CRITICAL)


def test_an_open_breaker_and_no_other_replica_is_critical() -> None:
    (finding,) = unavailable.CHECK.judge(observe_gateway({"r0": {"paceline_breaker_state": 2}}))
    assert finding.severity is Severity.CRITICAL


def test_an_engine_that_computes_nothing_is_found() -> None:
    (finding,) = unavailable.CHECK.judge(observe_gateway({"r0": {CHANGES: 77}, "r1": {}}))
    assert (finding.id, finding.subject) == ("engine-stalled", "r0")
    assert finding.cost.amount == pytest.approx(50)  # the other one computes


def test_an_idle_engine_does_not_stand_still() -> None:
    assert not unavailable.CHECK.judge(observe_gateway({"r0": {CHANGES: 77, _RUNNING: 0}}))


@pytest.mark.parametrize("changes", [{}, {CHANGES: None}])
def test_an_engine_that_counts_tokens_when_a_request_ends_does_not_stand_still(
    changes: dict[str, float | None],
) -> None:
    """llama.cpp and SGLang show their steps meanwhile, TGI nothing."""
    assert not unavailable.CHECK.judge(observe_gateway({"r0": {TOKENS: 77, **changes}}))


def test_a_gateway_is_observed_for_two_polls_before_an_engine_stands_still() -> None:
    assert not unavailable.CHECK.judge(observe_gateway({"r0": {CHANGES: 77}}, seconds=11))


def test_a_sleeping_engine_is_found() -> None:
    line = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} %s\n'
    asleep = observe_vllm(SimulatedEngine(extra=line % 0))
    assert [one.id for one in unavailable.CHECK.judge(asleep)] == ["engine-asleep"]
    assert not unavailable.CHECK.judge(observe_vllm(SimulatedEngine(extra=line % 1)))


def test_healthy_servers_are_available() -> None:
    assert not unavailable.CHECK.judge(observe_gateway())
    assert not unavailable.CHECK.judge(observe_vllm())


def test_a_restart_while_observed_is_critical() -> None:
    (finding,) = restarts.CHECK.judge(observe_vllm(SimulatedEngine(restarts_at=8)))
    assert finding.severity is Severity.CRITICAL
    assert not restarts.CHECK.judge(observe_vllm())


def test_an_earlier_restart_is_a_remark() -> None:
    observation = observe_gateway({"r0": {"paceline_replica_restarts_total": 2}})
    (finding,) = restarts.CHECK.judge(observation)
    assert finding.severity is Severity.INFO
    assert finding.summary == "r0 has restarted 2 times since the gateway started."
    assert not restarts.CHECK.judge(observe_gateway())


_RESTARTS = "paceline_replica_restarts_total"
_UNPLANNED = "paceline_replica_unplanned_restarts_total"


def _page(*, restarts: int, unplanned: int) -> str:
    return f'{_RESTARTS}{{replica="r0"}} {restarts}\n{_UNPLANNED}{{replica="r0"}} {unplanned}\n'


@pytest.mark.parametrize(
    ("before", "after", "severity", "words"),
    [
        ((1, 0), (2, 0), Severity.INFO, "was restarted while it was observed, as was asked for"),
        ((1, 0), (2, 1), Severity.CRITICAL, "restarted while it was observed"),
        ((0, 0), (2, 1), Severity.CRITICAL, "restarted while it was observed"),
        ((3, 1), (3, 1), Severity.INFO, "has restarted 3 times since the gateway started, 2 of"),
    ],
)
def test_a_planned_restart_is_a_remark_and_another_one_critical(
    before: tuple[int, int], after: tuple[int, int], severity: Severity, words: str
) -> None:
    """Of (all restarts, unplanned ones), at the first reading and later."""
    pages = [
        _page(restarts=restarts, unplanned=unplanned) for restarts, unplanned in (before, after)
    ]
    observation = observe_gateway({"r0": {_RESTARTS: 0, _UNPLANNED: 0}}, extra=pages)
    (finding,) = restarts.CHECK.judge(observation)
    assert finding.severity is severity
    assert finding.summary.startswith(f"r0 {words}")


def test_counters_of_a_replica_that_fall_after_a_planned_restart_are_no_crash() -> None:
    """The new engine counts its tokens from zero."""
    observation = observe_gateway(
        {"r0": {TOKENS: 7}},
        extra=(
            f'{TOKENS}{{replica="r0"}} 9000\n{_page(restarts=0, unplanned=0)}',
            _page(restarts=1, unplanned=0),
        ),
    )
    (finding,) = restarts.CHECK.judge(observation)
    assert finding.severity is Severity.INFO


def _requests(completed: int, engine_error: int = 0, overloaded: int = 0, not_sent: int = 0) -> str:
    counts = {
        "completed": completed, "engine_error": engine_error, "overloaded": overloaded,
        "not_sent": not_sent,
    }  # fmt: skip
    return "".join(
        f'paceline_requests_total{{outcome="{outcome}"}} {count}\n'
        for outcome, count in counts.items()
    )


def test_failed_and_refused_requests_are_found() -> None:
    observation = observe_gateway(extra=(_requests(10), _requests(70, 10, 30)))
    failing, refused = failing_requests.CHECK.judge(observation)
    assert (failing.id, failing.severity) == ("requests-fail", Severity.CRITICAL)
    assert failing.cost.amount == pytest.approx(10)
    assert (refused.id, refused.severity) == ("requests-refused", Severity.WARNING)
    assert refused.cost.amount == pytest.approx(30)


@pytest.mark.parametrize(("failed", "severity"), [(1, Severity.WARNING), (10, Severity.CRITICAL)])
def test_a_failed_request_in_a_hundred_is_critical(failed: int, severity: Severity) -> None:
    """1 and 10 of 1000; that the gateway could not open a connection counts, too."""
    ended = _requests(10 + 1000 - failed, not_sent=failed)
    (finding,) = failing_requests.CHECK.judge(observe_gateway(extra=(_requests(10), ended)))
    assert (finding.id, finding.severity) == ("requests-fail", severity)


def test_requests_that_vllm_failed_are_found() -> None:
    engine = dataclasses.replace(SimulatedEngine(), failed_per_s=2.0)
    (finding,) = failing_requests.CHECK.judge(observe_vllm(engine))
    assert finding.cost.amount == pytest.approx(50)


@pytest.mark.parametrize(
    ("completed", "failed", "severity"),
    [(3, 1, Severity.WARNING), (0, 1, Severity.WARNING), (0, 2, Severity.CRITICAL)],
)
def test_few_requests_are_judged_if_some_failed(
    completed: int, failed: int, severity: Severity
) -> None:
    ended = _requests(10 + completed, not_sent=failed)
    (finding,) = failing_requests.CHECK.judge(observe_gateway(extra=(_requests(10), ended)))
    assert (finding.id, finding.severity) == ("requests-fail", severity)


def test_requests_that_complete_are_no_finding() -> None:
    assert not failing_requests.CHECK.judge(observe_vllm())
    assert not failing_requests.CHECK.judge(
        observe_gateway(extra=(_requests(10, 3, 3), _requests(70, 3, 3)))
    )


def test_without_requests_nothing_can_fail() -> None:
    with pytest.raises(CannotJudge, match="0 requests ended"):
        failing_requests.CHECK.judge(observe_gateway(extra=(_requests(10), _requests(10))))


def test_refusals_of_the_probes_own_requests_are_not_judged() -> None:
    """It may send more at a time than the gateway admits."""
    pages = (_requests(10), _requests(30, overloaded=10))
    assert failing_requests.CHECK.judge(observe_gateway(extra=pages))
    own = observe_gateway(extra=pages, probe=probed(num_requests=30))
    assert failing_requests.CHECK.judge(own) == []
    assert failing_requests.CHECK.judge(observe_gateway(extra=pages, probe=probed(num_requests=9)))
