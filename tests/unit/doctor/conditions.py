"""The condition of every finding, on a simulated engine, gateway or log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.readings.monitors import Monitor, MonitorFile
from paceline.operations.doctor.readings.observation import Observation
from unit.doctor.checks.test_log import HEALTHY, LINES
from unit.doctor.checks.test_speculation import HARD_TEXT
from unit.doctor.gateways import CHANGES, observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

_RUNNING = "paceline_replica_load_requests_running"
_SLEEPS = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0\n'
_ACCESS = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
_FLOAT32 = "core.py:93] with config: dtype=torch.float32, device_config=cpu"
_DRIFT = """\
paceline_draft_drift_lost_tokens_per_second{replica="r0",category="sampled"} 40
paceline_draft_drift_acceptance{replica="r0",category="sampled"} 0.3
paceline_draft_drift_acceptance_best_level{replica="r0",category="sampled"} 0.6
paceline_draft_drift_acceptance_last_half_hour{replica="r0",category="sampled"} 0.3
paceline_draft_drift_lasting_lost_fraction{replica="r0",category="sampled"} 0.2
paceline_governor_goodput_tokens_per_second{replica="r0"} 160
"""
_STALE = MonitorFile(
    "rules.yaml", (Monitor("alert", "Full", ("vllm:gpu_cache_usage_perc > 0.9",)),)
)
_NO_PREFIX_CACHE = 'vllm:cache_config_info{enable_prefix_caching="False"} 1\n'
_BF16 = frozenset({"avx2", "avx512f", "avx512_bf16"})


def _requests(**counts: int) -> str:
    return "".join(
        f'paceline_requests_total{{outcome="{outcome}"}} {count}\n'
        for outcome, count in counts.items()
    )


def _queue(fast: int, slow: int) -> str:
    total = fast + slow
    return (
        f'paceline_queue_seconds_bucket{{le="0.5"}} {fast}\n'
        f'paceline_queue_seconds_bucket{{le="2.5"}} {total}\n'
        f'paceline_queue_seconds_bucket{{le="+Inf"}} {total}\n'
        f"paceline_queue_seconds_sum {slow}\npaceline_queue_seconds_count {total}\n"
    )


def _vllm(**engine: object) -> Observation:
    return observe_vllm(SimulatedEngine(**engine))  # type: ignore[arg-type]


def _entries(*versions: str) -> list[dict[str, str]]:
    return [
        {"name": f"r{index}", "model": "m", "dialect": "vllm", "version": version}
        for index, version in enumerate(versions)
    ]


CONDITIONS: Mapping[str, Observation] = {
    "server-lost": dataclasses.replace(observe_vllm(), lost="connection refused"),
    "engine-stalled": observe_gateway({"r0": {CHANGES: 77}, "r1": {}}),
    "engine-asleep": _vllm(extra=_SLEEPS),
    "replica-unavailable": observe_gateway({"r0": {}, "r1": {"paceline_replica_state": 0}}),
    "engine-restarted": _vllm(restarts_at=8),
    "requests-fail": _vllm(failed_per_s=2.0),
    "requests-refused": observe_gateway(
        extra=(_requests(completed=10), _requests(completed=70, overloaded=30))
    ),
    "speculation-loses": _vllm(reached=(0.0,) * 8, draft_ms=2.0),
    "speculation-hardly-gains": _vllm(reached=(0.03,), draft_ms=0.1, token_ms=0.01),
    "draft-too-long": observe_vllm(
        dataclasses.replace(HARD_TEXT, reached=(0.9, *(0.0,) * 5), token_ms=0.4)
    ),
    "draft-too-short": _vllm(reached=(0.97,), draft_ms=0.05, token_ms=0.05),
    "data-parallel-drafts": observe_vllm(SimulatedEngine(), SimulatedEngine()),
    "governor-failing": observe_gateway(
        governors=(
            {"r0": {"policy": "goodput", "steps_total": 5, "safe_plan_steps_total": 0}},
            {"r0": {"policy": "goodput", "steps_total": 90, "safe_plan_steps_total": 80}},
        )
    ),
    "draft-drift": observe_gateway(extra=(_DRIFT,)),
    "cost-table-misfit": observe_gateway(
        governors=(
            {},
            {
                "r0": {
                    "length_steps": {"0": 500, "4": 500},
                    "measured_step_seconds": {"0": 10.0, "4": 40.0},
                    "table_step_seconds": {"0": 10.0, "4": 20.0},
                }
            },
        )
    ),
    "kv-cache-full": _vllm(kv_usage=0.97, preemptions_per_s=1.0, extra=_NO_PREFIX_CACHE),
    "queue-in-engine": _vllm(waiting=(3,) * 16),
    "queue-in-gateway": observe_gateway(extra=(_queue(0, 0), _queue(50, 50))),
    "load-imbalance": observe_gateway({"r0": {_RUNNING: 12.0}, "r1": {_RUNNING: 2.0}}),
    "prefill-stalls": _vllm(slow_steps=0.02, prompt_tokens_per_s=2000.0),
    "first-requests-slow": _vllm(answered_before=0, first_tokens_s=(2.4, *(0.05,) * 10)),
    "descriptors-nearly-used": _vllm(extra="process_max_fds 1000\nprocess_open_fds 900\n"),
    "descriptors-few": _vllm(extra="process_max_fds 1024\nprocess_open_fds 90\n"),
    "duplicate-tokens": observe_gateway(probe=probed(excess_tokens=(("r", 70, 64),))),
    "vllm-release-unknown": observe_vllm(version="0.26.0"),
    "vllm-versions-mixed": observe_gateway(entries=_entries("0.32.0", "0.32.1")),
    "vllm-hooks-unfit": observe_gateway(governors=({"r0": {"seams": {"schedule": "missing"}}},)),
    "vllm-known-defects": observe_vllm(version="0.32.0+cpu"),
    "cpu-kernel-slow": observe_vllm(local_cpu=LocalCpu(_BF16, frozenset({"_C_AVX2"}))),
    "cpu-dtype-slow": observe_vllm(
        local_cpu=LocalCpu(_BF16, frozenset({"_C"})), log_lines=[_FLOAT32]
    ),
    "monitoring-stale": observe_vllm(monitors=[_STALE]),
    "log-illegal-memory-access": observe_vllm(log_lines=[_ACCESS]),
    "log-fp8-kv-with-draft": observe_vllm(log_lines=[*HEALTHY, _ACCESS]),
    **{name: observe_vllm(log_lines=[*HEALTHY, line]) for name, line in LINES.items()},
}
"""By id of the finding."""
