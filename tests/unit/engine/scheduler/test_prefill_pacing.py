"""The limits that pacing sets on a scheduler, with a pacer that is scripted."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.scheduler.prefill_pacing import SchedulerPacing
from paceline.governor.values import StepSample

BUDGET, CHUNK = 2048, 512


@dataclass
class Pacer:
    """Allows a scripted number of prompt tokens and keeps what it sees."""

    most: int | Exception | None = None
    asked: list[tuple[int, int, int, int]] = field(default_factory=list)
    samples: list[StepSample] = field(default_factory=list)
    observe_error: Exception | None = None

    def max_prefill_tokens(self, *load: int) -> int | None:
        self.asked.append(load)  # type: ignore[arg-type]
        if isinstance(self.most, Exception):
            raise self.most
        return self.most

    def observe(self, sample: StepSample) -> None:
        if self.observe_error is not None:
            raise self.observe_error
        self.samples.append(sample)


def request(computed: int, drafts: int = 0, prompt: int = 100) -> Any:
    """A request that decodes once `computed` reaches `prompt`."""
    return SimpleNamespace(
        num_computed_tokens=computed,
        num_prompt_tokens=prompt,
        spec_token_ids=[7] * drafts,
        num_stale_output_tokens=0,
        status=2,
        is_finished=lambda: False,
    )


def make(
    *requests: Any, most: int | Exception | None = None, chunk: int = CHUNK
) -> tuple[Any, SchedulerPacing, Pacer]:
    """A scheduler with running requests, its pacing, and the scripted pacer in it."""
    scheduler = SimpleNamespace(
        max_num_scheduled_tokens=BUDGET,
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=chunk),
        running=list(requests),
        requests={str(i): found for i, found in enumerate(requests)},
        has_requests=lambda: True,
    )
    pacing = SchedulerPacing(scheduler, 0.05)
    pacer = Pacer(most)
    pacing._pacer = pacer  # type: ignore[assignment]
    return scheduler, pacing, pacer


def limits(scheduler: Any) -> tuple[int, int]:
    return (
        scheduler.max_num_scheduled_tokens,
        scheduler.scheduler_config.long_prefill_token_threshold,
    )


def step(scheduler: Any, pacing: SchedulerPacing, tokens: dict[str, int], length: Any = 0) -> None:
    """One step that schedules `tokens` and drafts `length`."""
    output = SimpleNamespace(
        num_scheduled_tokens=tokens,
        scheduled_spec_decode_tokens={},
        total_num_scheduled_tokens=sum(tokens.values()),
        num_spec_tokens_to_schedule=length,
    )
    pacing.before_schedule(scheduler)
    pacing.step_scheduled(scheduler, output)
    pacing.after_step(scheduler, output)


def test_the_pacer_is_asked_about_the_requests_that_decode() -> None:
    """Two decode, with 3 and 1 drafts; the third, at its last prompt token, still prefills."""
    scheduler, pacing, pacer = make(request(100, 3), request(250, 1), request(99, 5))
    pacing.before_schedule(scheduler)
    assert pacer.asked == [(2, 4, 350, 0)]


def test_the_step_may_compute_the_decodes_and_what_is_allowed_of_prompts() -> None:
    """2 decodes, 4 drafts and 64 prompt tokens; one prompt may have all 64."""
    scheduler, pacing, _ = make(request(100, 3), request(250, 1), most=64)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (70, 64)


@pytest.mark.parametrize(
    ("most", "chunk", "expected"),
    [
        (None, CHUNK, (BUDGET, CHUNK)),
        (None, 0, (BUDGET, 0)),
        (5000, CHUNK, (BUDGET, CHUNK)),  # never above the configured limits
        (600, CHUNK, (600 + 4, CHUNK)),
        (600, 0, (600 + 4, 600)),  # 0 is vLLM's "no limit"
        (2, CHUNK, (2 + 4, 4)),  # a decode with three drafts needs a chunk of 4
    ],
)
def test_limits_stay_between_the_drafts_and_the_configuration(
    most: int | None, chunk: int, expected: tuple[int, int]
) -> None:
    scheduler, pacing, _ = make(request(100, 3), most=most, chunk=chunk)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == expected


def test_limits_return_to_the_configuration_when_nothing_is_bounded() -> None:
    scheduler, pacing, pacer = make(request(100), most=16)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (17, 16)
    pacer.most = None
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)


def test_the_pacer_learns_from_each_step_and_its_draft_length() -> None:
    """A step of one decode and a chunk of 30; vLLM leaves the length None without speculation."""
    scheduler, pacing, pacer = make(request(100), request(0), most=64)
    step(scheduler, pacing, {"0": 1, "1": 30}, length=3)
    step(scheduler, pacing, {"0": 1}, length=None)
    step(scheduler, pacing, {"0": 1})
    assert [s.prefill_tokens for s in pacer.samples] == [29, 0, 0]
    assert [s.draft_length for s in pacer.samples] == [3, 0, 0]
    assert [s.is_clean for s in pacer.samples] == [False, True, True]
    assert [length for *_, length in pacer.asked] == [0, 3, 0]


def test_a_draft_after_a_rest_is_a_step_like_another() -> None:
    """Which drafters rest does not matter here; the first step is timed from its schedule."""
    scheduler, pacing, pacer = make(request(100), most=64)
    for length in (0, 3, 0):
        step(scheduler, pacing, {"0": 1}, length=length)
    assert [s.is_clean for s in pacer.samples] == [False, True, True]
    assert all(0.0 <= (s.duration_s or 0.0) < 60.0 for s in pacer.samples)


def test_the_objective_is_the_pacers() -> None:
    scheduler, _, _ = make()
    with pytest.raises(ValueError, match=r"objective_s is 0\.0; it must be positive"):
        SchedulerPacing(scheduler, 0.0)


def test_a_step_without_tokens_is_no_step() -> None:
    """Its draft length does not count, and nothing is learned."""
    scheduler, pacing, pacer = make(request(100), most=64)
    step(scheduler, pacing, {}, length=5)
    step(scheduler, pacing, {"0": 1})
    assert len(pacer.samples) == 1
    assert [length for *_, length in pacer.asked] == [0, 0]


def test_after_an_error_the_configured_limits_apply_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One log line; the pacer is neither asked nor taught any more."""
    scheduler, pacing, pacer = make(request(100), most=64)
    pacing.before_schedule(scheduler)
    pacer.most = ZeroDivisionError("planted")
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)
    pacer.most = 64
    step(scheduler, pacing, {"0": 1})
    assert limits(scheduler) == (BUDGET, CHUNK)
    assert (len(pacer.asked), pacer.samples) == (2, [])
    assert [record.getMessage() for record in caplog.records] == [
        "Pacing: ZeroDivisionError before a step: planted. Prefill pacing is off until the engine "
        "restarts; vLLM's configured limits apply."
    ]


@pytest.mark.parametrize("where", ["with a scheduled step", "after a step"])
def test_errors_around_a_step_switch_pacing_off(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that vLLM no longer knows; a sample that the pacer cannot take."""
    scheduler, pacing, pacer = make(request(100), most=64)
    if where == "after a step":
        pacer.observe_error = ZeroDivisionError("planted")
        step(scheduler, pacing, {"0": 1})
    else:
        step(scheduler, pacing, {"gone": 1})
    [record] = caplog.records
    assert f" {where}: " in record.getMessage()
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)
