"""Checks of the KV cache, of queues and of descriptors."""

from __future__ import annotations

import pytest

from paceline.foundation.servers.metrics_page import parse_page
from paceline.operations.doctor.checks.capacity import descriptors, kv_cache, queue
from paceline.operations.doctor.readings.observation import Observation, Reading
from paceline.operations.doctor.values import Basis, CannotJudge, Finding, Severity
from unit.doctor.gateways import observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

QUEUE_TIMES = (
    'vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf"} %(count)s\n'
    'vllm:request_queue_time_seconds_sum{engine="0"} %(sum)s\n'
    'vllm:request_queue_time_seconds_count{engine="0"} %(count)s\n'
)


def _ids(findings: object) -> list[str]:
    assert isinstance(findings, list | tuple)
    return [finding.id for finding in findings if isinstance(finding, Finding)]


def test_a_full_cache_with_preemptions_is_found() -> None:
    engine = SimulatedEngine(kv_usage=0.97, preemptions_per_s=1.0)
    (finding,) = kv_cache.CHECK.judge(observe_vllm(engine))
    assert finding.summary == "The KV cache of engine 0 is 97 % full: 16 requests were preempted."
    assert "max_num_seqs" in finding.settings
    assert "enable_prefix_caching" not in finding.settings


def test_a_full_cache_that_requests_wait_for_is_found() -> None:
    engine = SimulatedEngine(kv_usage=0.95, waiting=(3,) * 16)
    assert _ids(kv_cache.CHECK.judge(observe_vllm(engine))) == ["kv-cache-full"]


def test_the_configuration_decides_which_settings_are_named() -> None:
    config = (
        'vllm:cache_config_info{enable_prefix_caching="False",gpu_memory_utilization="0.7"} 1\n'
    )
    engine = SimulatedEngine(kv_usage=0.97, preemptions_per_s=1.0, extra=config)
    (finding,) = kv_cache.CHECK.judge(observe_vllm(engine))
    assert finding.settings[:2] == ("gpu_memory_utilization", "enable_prefix_caching")
    assert "from 0.7 to 0.85" in finding.remedy


@pytest.mark.parametrize(
    "engine",
    [
        SimulatedEngine(),
        SimulatedEngine(kv_usage=0.97),  # full, and no request waits: the cache is used well
        SimulatedEngine(kv_usage=0.5, preemptions_per_s=1.0),
    ],
)
def test_a_cache_that_holds_nobody_up_is_no_finding(engine: SimulatedEngine) -> None:
    assert kv_cache.CHECK.judge(observe_vllm(engine)) == []


def test_the_wait_is_that_which_vllm_counted() -> None:
    """12 requests waited 18 s in all."""
    engine = SimulatedEngine(waiting=(3,) * 16, loads=(4,) * 16)
    first = QUEUE_TIMES % {"count": 5, "sum": 2}
    later = QUEUE_TIMES % {"count": 17, "sum": 20}
    readings = [
        Reading(float(second), parse_page(f"{page}{later if second else first}"))
        for second, page in enumerate(engine.pages())
    ]
    (finding,) = queue.CHECK.judge(Observation("vllm", readings))
    assert finding.id == "queue-in-engine"
    assert finding.cost.basis is Basis.MEASURED
    assert finding.cost.amount == pytest.approx(1500)
    # After the first reading 3 of 7 requests wait; the first has none waiting.
    waiting = 3 * 16 / 17
    assert finding.cost.share == pytest.approx(waiting / (waiting + 4))


def test_without_queue_times_the_wait_follows_from_littles_law() -> None:
    """3 wait on average and 16 requests start in 16 s: 3 s each, less the first reading's none."""
    engine = SimulatedEngine(waiting=(3,) * 16, first_tokens_s=(0.04,) * 16)
    (finding,) = queue.CHECK.judge(observe_vllm(engine))
    assert finding.cost.basis is Basis.ESTIMATED
    assert finding.cost.amount == pytest.approx(3000 * 16 / 17)
    assert finding.cost.low == pytest.approx(1500 * 16 / 17)


def test_a_burst_is_no_queue() -> None:
    assert queue.CHECK.judge(observe_vllm(SimulatedEngine(waiting=(5, 5, 5)))) == []
    assert queue.CHECK.judge(observe_vllm(SimulatedEngine())) == []


def test_waiting_for_a_full_cache_is_reported_once() -> None:
    engine = SimulatedEngine(waiting=(3,) * 16, kv_usage=0.95)
    assert queue.CHECK.judge(observe_vllm(engine)) == []


def _gateway_queue(at_once: int, after_2_s: int) -> str:
    name, total = "paceline_queue_seconds", at_once + after_2_s
    return (
        f'{name}_bucket{{le="0.5"}} {at_once}\n{name}_bucket{{le="5"}} {total}\n'
        f'{name}_bucket{{le="+Inf"}} {total}\n{name}_sum {2 * after_2_s}\n{name}_count {total}\n'
    )


def test_a_wait_in_the_gateway_is_found() -> None:
    slow = observe_gateway(extra=(_gateway_queue(10, 0), _gateway_queue(50, 40)))
    (finding,) = queue.CHECK.judge(slow)
    assert finding.id == "queue-in-gateway"
    assert finding.cost.amount == pytest.approx(1000)  # 40 of 80 requests waited 2 s
    quick = observe_gateway(extra=(_gateway_queue(10, 0), _gateway_queue(50, 0)))
    assert queue.CHECK.judge(quick) == []


@pytest.mark.parametrize(
    ("used", "limit", "expected"),
    [
        (900, 1024, [("descriptors-nearly-used", Severity.WARNING)]),
        (50, 1024, [("descriptors-few", Severity.INFO)]),
        (900, 65535, []),
    ],
)
def test_the_limit_on_open_files(
    used: int, limit: int, expected: list[tuple[str, Severity]]
) -> None:
    extra = f"process_open_fds {used}\nprocess_max_fds {limit}\n"
    findings = descriptors.CHECK.judge(observe_vllm(SimulatedEngine(extra=extra)))
    assert [(one.id, one.severity) for one in findings] == expected


def test_the_worker_of_a_gateway_that_is_closest_to_its_limit_counts() -> None:
    lines = [
        f'paceline_open_files{{process="{name}"}} {used}\n'
        f'paceline_open_files_limit{{process="{name}"}} 65535\n'
        for name, used in (("gateway", 40), ("worker-0", 900), ("worker-1", 60000))
    ]
    (finding,) = descriptors.CHECK.judge(observe_gateway(extra=("".join(lines),)))
    assert finding.id == "descriptors-nearly-used"
    assert finding.summary.startswith("The process worker-1 may open 65535 files")
    assert not descriptors.CHECK.judge(observe_gateway(extra=("".join(lines[:2]),)))


def test_without_the_limit_it_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="does not show its open files"):
        descriptors.CHECK.judge(observe_vllm())


@pytest.mark.parametrize(("load", "waiting"), [(2, 6), (4, 4), (8, 0)])
def test_a_queue_of_the_probes_own_requests_is_not_judged(load: int, waiting: int) -> None:
    """Eight at a time, on a server that computes two, four, or all of them."""
    engine = SimulatedEngine(loads=(load,) * 60, waiting=(waiting,) * 60)
    with pytest.raises(CannotJudge, match="the only requests were those of the probe, at most 8"):
        queue.CHECK.judge(observe_vllm(engine, probe=probed(concurrency=8)))


def test_a_queue_of_clients_beside_the_probe_is_judged() -> None:
    engine = SimulatedEngine(loads=(4,) * 60, waiting=(9,) * 60)
    (finding,) = queue.CHECK.judge(observe_vllm(engine, probe=probed(concurrency=8)))
    assert finding.id == "queue-in-engine"


def test_the_probes_own_wait_in_the_gateway_is_no_queue() -> None:
    pages = (_gateway_queue(10, 0), _gateway_queue(20, 20))  # 30 requests, 20 of them late
    assert queue.CHECK.judge(observe_gateway(extra=pages))
    few = observe_gateway(extra=pages, probe=probed(num_requests=30))
    assert queue.CHECK.judge(few) == []
    assert queue.CHECK.judge(observe_gateway(extra=pages, probe=probed(num_requests=20)))
