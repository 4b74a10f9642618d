"""What the settings and vLLM's configuration make of pacing."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.engine.scheduler import prefill_pacing
from paceline.runtime.engine.scheduler.prefill_pacing import SchedulerPacing, start_pacing
from paceline.runtime.engine.scheduler.settings import PluginSettings
from unit.engine.scheduler.test_prefill_pacing import make


def started(
    option: dict[str, Any] | None = None, *, fits: bool = True, **times: float
) -> tuple[SchedulerPacing | None, str]:
    """What `start_pacing` gives for these settings and an option of vLLM, and its log."""
    scheduler, _, _ = make()
    for name, value in (option or {}).items():
        holder = scheduler.scheduler_config
        if name.endswith("_parallel_size"):
            holder = scheduler.vllm_config.parallel_config
        elif name.startswith("local_"):
            holder = scheduler
        setattr(holder, name, value)
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefill_pacing, "check_hooks", lambda part: {})
        patch.setattr(prefill_pacing, "unfit_for", lambda part, found: "" if fits else "planted")
        for level in ("info", "error"):
            patch.setattr(
                prefill_pacing.logger, level, lambda text, *given: lines.append(text % given)
            )
        return start_pacing(scheduler, PluginSettings(**times)), "".join(lines)  # type: ignore[arg-type]


def rooms(pacing: SchedulerPacing | None) -> tuple[int | None, int | None]:
    """Prompt tokens beside a decode of 10 ms and one of a second, at a tenth of it per token."""
    assert pacing is not None
    found = []
    for decode_s in (0.01, 1.0):
        for _ in range(60):
            pacing._pacer.observe(decode_s, 0, is_decoding=True)
        found.append(pacing._pacer.max_prefill_tokens())
    return found[0], found[1]


def test_a_longest_pause_leaves_prompts_most_of_the_time() -> None:
    """200 ms less a margin and the decode; beside a decode of a second, two seconds."""
    pacing, log = started(max_pause_ms=200)
    fast, slow = rooms(pacing)
    assert fast is not None
    assert slow is not None
    assert 140 <= fast <= 190
    assert slow == pytest.approx(20, abs=1)
    assert log == (
        "Pacing: prompts delay running answers by at most 200 ms, or 3 times a step's decodes"
    )


def test_an_objective_comes_before_a_longest_pause() -> None:
    """It keeps 16 prompt tokens beside a decode that is too slow by itself."""
    pacing, log = started(max_pause_ms=200, time_per_output_token_ms=50)
    fast, slow = rooms(pacing)
    assert fast is not None
    assert 28 <= fast <= 40
    assert slow == 16
    assert log == "Pacing: objective of 50 ms between two tokens of a request"


def test_without_a_time_nothing_is_paced() -> None:
    assert started() == (None, "")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"enable_chunked_prefill": False}, "in one piece (--no-enable-chunked-prefill)"),
        ({"disable_chunked_mm_input": True}, "images are computed in one piece"),
        ({"long_prefill_token_threshold_adaptive": True}, "vLLM raises the pieces"),
        ({"local_prefill_interval": 4}, "one of 4 steps only (prefill_schedule_interval)"),
        (
            {"data_parallel_size": 2, "prefill_schedule_interval": 3, "local_prefill_interval": 1},
            "one of 3 steps only (prefill_schedule_interval)",
        ),
    ],
)
def test_a_longest_pause_is_left_out_where_vllm_places_prompts_itself(
    option: dict[str, Any], reason: str
) -> None:
    """An objective, which somebody asked for, is refused."""
    pacing, log = started(option, max_pause_ms=200)
    assert pacing is None
    assert log.startswith("Pacing: off, because ")
    assert reason in log
    with pytest.raises(ValueError, match=r"time_per_output_token_ms is 50\.0, but .*; remove"):
        started(option, time_per_output_token_ms=50.0)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"pipeline_parallel_size": 2}, "steps of several pipeline stages overlap"),
        ({"data_parallel_size": 2}, "steps may wait for those of other ranks"),
    ],
)
def test_a_longest_pause_is_left_out_where_steps_wait_for_others(
    option: dict[str, Any], reason: str
) -> None:
    """An objective is tried."""
    pacing, log = started(option, max_pause_ms=200)
    assert pacing is None
    assert reason in log
    pacing, _ = started(option, time_per_output_token_ms=50.0)
    assert pacing is not None


def test_an_interval_that_vllm_does_not_apply_changes_nothing() -> None:
    """Before 0.33 it holds for data-parallel ranks only; since then 1 says that it does not."""
    for option in ({}, {"local_prefill_interval": 1}):
        pacing, _ = started({**option, "prefill_schedule_interval": 4}, max_pause_ms=200)
        assert pacing is not None


def test_without_its_hooks_nothing_is_paced() -> None:
    pacing, log = started(fits=False, max_pause_ms=200)
    assert pacing is None
    assert log == "Pacing: off, because this vLLM does not fit its hooks: planted"
