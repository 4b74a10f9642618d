"""Which tests judge the mutants of which module.

By default those of the mirror: `src/paceline/FLOOR/a/b.py` and `tests/unit/a/test_b.py`. Listed
here, without the floor, are modules that are tested in another file.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = ROOT / "src" / "paceline"
_UNIT = "tests/unit"

TESTS: dict[str, tuple[str, ...]] = {
    "engine/scheduler/draft_length_controller.py": (
        "engine/scheduler/test_controller_commands.py",
        "engine/scheduler/test_draft_length_controller.py",
    ),
    "engine/scheduler/governor_driver.py": (
        "engine/scheduler/driver/test_governor_driver.py",
        "engine/scheduler/driver/test_request_caps.py",
    ),
    "engine/scheduler/prefill_pacing.py": (
        "engine/scheduler/test_pacing_start.py",
        "engine/scheduler/test_prefill_pacing.py",
    ),
    "engine/scheduler/step_clock.py": (
        "engine/scheduler/test_observer.py",
        "engine/scheduler/test_prefill_pacing.py",
    ),
    "governor/prefill_pacing.py": (
        "governor/test_prefill_pacing.py",
        "governor/test_prefill_pacing_margin.py",
    ),
    "governor/values.py": ("governor/test_value_limits.py", "governor/test_values.py"),
    "engine/scheduler/observer.py": (
        "engine/scheduler/test_observer.py",
        "engine/scheduler/test_observer_edges.py",
        "engine/scheduler/test_observer_requests.py",
    ),
    "governor/contract/driving.py": (
        "governor/contract/test_check_steps.py",
        "governor/contract/test_promises.py",
    ),
    "governor/contract/promises.py": (
        "governor/contract/test_check_steps.py",
        "governor/contract/test_late_faults.py",
        "governor/contract/test_promises.py",
    ),
    "governor/contract/width_promises.py": ("governor/contract/test_promises.py",),
    "governor/drafting/drafting_round.py": (
        "governor/drafting/test_drafting_round.py",
        "governor/drafting/test_lossless.py",
    ),
    "governor/policies/fixed.py": ("governor/policies/test_simple_policies.py",),
    "governor/policies/goodput.py": (
        "governor/policies/test_goodput_lengths.py",
        "governor/policies/test_goodput_early_ends.py",
        "governor/policies/test_goodput_in_simulated_engines.py",
    ),
    "governor/policies/schedule.py": ("governor/policies/test_simple_policies.py",),
    "gateway/admission/queue.py": (
        "gateway/admission/test_queue.py",
        "gateway/admission/test_queue_idle_slots.py",
        "gateway/admission/test_queue_moments.py",
    ),
    "gateway/continuation/chunks.py": (
        "gateway/continuation/test_chunks.py",
        "gateway/continuation/test_tracked_relay.py",
    ),
    "gateway/continuation/continued_relay.py": (
        "gateway/continuation/test_continued_parts.py",
        "gateway/continuation/test_continued_relay.py",
    ),
    "gateway/continuation/tracked_relay.py": (
        "gateway/continuation/test_continued_parts.py",
        "gateway/continuation/test_tracked_relay.py",
    ),
    "gateway/proxy/answer.py": (
        "gateway/proxy/attempts/test_answer.py",
        "gateway/proxy/attempts/test_cut_sends.py",
    ),
    "gateway/proxy/attempt.py": (
        "gateway/proxy/attempts/test_answers_of_attempts.py",
        "gateway/proxy/attempts/test_attempt.py",
        "gateway/proxy/attempts/test_attempt_outcomes.py",
        "gateway/proxy/attempts/test_cut_sends.py",
    ),
    "gateway/proxy/attempt_end.py": ("gateway/proxy/attempts/test_attempt_end.py",),
    "gateway/proxy/attempt_history.py": ("gateway/proxy/attempts/test_attempt_history.py",),
    "gateway/proxy/engine_errors.py": (
        "gateway/proxy/test_engine_error_values.py",
        "gateway/proxy/test_engine_errors.py",
    ),
    "gateway/proxy/replica_chooser.py": ("gateway/proxy/test_replica_waits.py",),
    "gateway/proxy/request_runner.py": (
        "gateway/proxy/test_continued_requests.py",
        "gateway/proxy/test_held_bytes.py",
        "gateway/proxy/test_request_runner.py",
    ),
    "gateway/proxy/stream_timeout.py": (
        "gateway/proxy/attempts/test_stream_timeout_moments.py",
        "gateway/proxy/test_stream_timeout.py",
    ),
    "gateway/proxy/upstream.py": (
        "gateway/proxy/attempts/test_upstream_requests.py",
        "gateway/proxy/test_upstream.py",
    ),
    "gateway/routing/breaker.py": (
        "gateway/routing/test_breaker.py",
        "gateway/routing/test_breaker_values.py",
    ),
    "gateway/routing/ranker.py": ("gateway/routing/test_rankers.py",),
    "gateway/routing/rankers/least_load.py": ("gateway/routing/test_rankers.py",),
    "gateway/routing/replica_slots.py": (
        "gateway/routing/test_router.py",
        "gateway/workers/test_idle_slots.py",
    ),
    "gateway/routing/stream_progress.py": (
        "gateway/routing/test_stall_detection.py",
        "gateway/routing/test_stream_progress.py",
    ),
}

NOT_JUDGED: dict[str, str] = {
    "engine/scheduler/adaptive_scheduler.py": "tested on real engines",
    "engine/scheduler/governor_start.py": "tested on real engines",
    "governor/contract/samples.py": "data for the checks of the contract, not behaviour",
    "governor/policy.py": "declares a protocol",
    "gateway/admission/slot_source.py": "declares a protocol",
    "gateway/proxy/services.py": "names the shared objects",
}
"""Modules without mutants, with the reason."""


def is_judged(path: Path) -> bool:
    """Return whether unit tests are to notice every change of this source file."""
    return str(_below_floor(path)) not in NOT_JUDGED


def module_of(path: Path) -> str:
    """Return the import name of a source file."""
    return ".".join(path.resolve().relative_to(ROOT / "src").with_suffix("").parts)


def judges_of(path: Path) -> list[str]:
    """Return the test files of a source file, relative to the repository's root; ValueError if none
    exists."""
    relative = _below_floor(path)
    mirror = str(relative.with_name(f"test_{relative.name}"))
    found = [f"{_UNIT}/{test}" for test in TESTS.get(str(relative), (mirror,))]
    missing = [test for test in found if not (ROOT / test).is_file()]
    if missing:
        raise ValueError(f"{relative} has no tests at {missing}; name some in {__file__}")
    return found


def _below_floor(path: Path) -> Path:
    return Path(*path.resolve().relative_to(_SOURCE).parts[1:])
