"""The limits that pacing sets on a scheduler, with a pacer that is scripted."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.scheduler import step_clock
from paceline.runtime.engine.scheduler.prefill_pacing import SchedulerPacing

BUDGET, CHUNK = 2048, 512


@dataclass
class Pacer:
    """Allows a scripted number of prompt tokens and keeps what it sees."""

    most: int | Exception = BUDGET
    num_asked: int = 0
    seen: list[tuple[float, int, bool]] = field(default_factory=list)
    lean: list[bool] = field(default_factory=list)
    observe_error: Exception | None = None

    def max_prefill_tokens(self) -> int:
        self.num_asked += 1
        if isinstance(self.most, Exception):
            raise self.most
        return self.most

    def observe(
        self, duration_s: float, prefill_tokens: int, *, is_decoding: bool, is_lean: bool
    ) -> None:
        if self.observe_error is not None:
            raise self.observe_error
        self.seen.append((round(duration_s, 6), prefill_tokens, is_decoding))
        self.lean.append(is_lean)


def request(computed: int, drafts: int = 0, prompt: int = 100) -> Any:
    """A request that decodes once `computed` reaches `prompt`."""
    return SimpleNamespace(
        is_prefill_chunk=computed < prompt,
        spec_token_ids=[7] * drafts,
    )


def make(
    *requests: Any, most: int | Exception = BUDGET, chunk: int = CHUNK, waiting: int = 0
) -> tuple[Any, SchedulerPacing, Pacer]:
    """A scheduler with running requests, its pacing, and the scripted pacer in it."""
    scheduler = SimpleNamespace(
        max_num_scheduled_tokens=BUDGET,
        scheduler_config=SimpleNamespace(
            long_prefill_token_threshold=chunk,
            enable_chunked_prefill=True,
            disable_chunked_mm_input=False,
            prefill_schedule_interval=1,
        ),
        vllm_config=SimpleNamespace(
            parallel_config=SimpleNamespace(pipeline_parallel_size=1, data_parallel_size=1)
        ),
        running=list(requests),
        num_waiting=waiting,
        has_requests=lambda: True,
    )
    scheduler.get_request_counts = lambda: (len(scheduler.running), scheduler.num_waiting)
    pacing = SchedulerPacing(scheduler, 0.05)
    pacer = Pacer(most)
    pacing._pacer = pacer  # type: ignore[assignment]
    return scheduler, pacing, pacer


def limits(scheduler: Any) -> tuple[int, int]:
    return (
        scheduler.max_num_scheduled_tokens,
        scheduler.scheduler_config.long_prefill_token_threshold,
    )


def output_of(tokens: dict[str, int], drafts: int = 0) -> Any:
    """The step that schedules `tokens`; the first request has `drafts` among its own."""
    return SimpleNamespace(
        num_scheduled_tokens=tokens,
        scheduled_spec_decode_tokens={"0": [7] * drafts} if drafts else {},
        total_num_scheduled_tokens=sum(tokens.values()),
    )


def step(
    scheduler: Any, pacing: SchedulerPacing, tokens: dict[str, int], drafts: int = 0
) -> tuple[int, int]:
    """One step that schedules `tokens`; its limits."""
    output = output_of(tokens, drafts)
    pacing.before_schedule(scheduler)
    found = limits(scheduler)
    pacing.step_scheduled(output)
    pacing.after_step(scheduler, output)
    pacing.after_drafts()
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds; a test advances it."""
    now = [100.0]
    monkeypatch.setattr(step_clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_without_a_prompt_the_pacer_is_not_asked() -> None:
    """Nothing waits, and the last step had no prompt."""
    scheduler, pacing, pacer = make(request(100, 3), request(250, 1), most=64)
    assert step(scheduler, pacing, {"0": 4, "1": 2}, drafts=3) == (BUDGET, CHUNK)
    assert pacer.num_asked == 0


def test_a_waiting_prompt_and_one_under_way_are_paced_until_they_decode() -> None:
    scheduler, pacing, _ = make(request(100), most=64, waiting=1)
    assert step(scheduler, pacing, {"0": 1, "1": 64}) == (65, 64)
    scheduler.num_waiting = 0
    scheduler.running.append(request(64))
    assert step(scheduler, pacing, {"0": 1, "1": 36}) == (65, 64)
    scheduler.running[1].is_prefill_chunk = False
    assert step(scheduler, pacing, {"0": 1, "1": 1}) == (66, 64)  # it is noticed in this step
    assert step(scheduler, pacing, {"0": 1, "1": 1}) == (BUDGET, CHUNK)


def test_prompts_alone_are_not_limited() -> None:
    """A request at its last prompt token still prefills."""
    scheduler, pacing, pacer = make(request(99, 5), most=64, waiting=1)
    assert step(scheduler, pacing, {"0": 1}) == (BUDGET, CHUNK)
    assert pacer.num_asked == 0


def test_the_step_may_compute_the_decodes_and_what_is_allowed_of_prompts() -> None:
    """2 decodes, 4 drafts and 64 prompt tokens; one prompt may have all 64."""
    scheduler, pacing, _ = make(request(100, 3), request(250, 1), most=64, waiting=1)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (70, 64)


def test_a_step_with_as_few_prompt_tokens_as_possible_takes_none_from_a_decode() -> None:
    """A chunk holds a decode with 3 drafts, so the two prompts under way get 4 tokens each.

    The pacer learns that these could not be avoided; the step after it is another one.
    """
    scheduler, pacing, pacer = make(
        request(0), request(8), request(100, 3), request(250, 1), most=0, waiting=1
    )
    tokens = {"0": 4, "1": 4, "2": 4, "3": 2}
    assert step(scheduler, pacing, tokens, drafts=4) == (2 + 4 + 2 * 4, 4)
    pacer.most = 64
    step(scheduler, pacing, {"2": 4})
    assert pacer.lean == [True, False]
    assert pacer.seen[0][1:] == (14 - 4 - 4, True)


def test_prompts_ahead_of_a_decode_share_what_is_allowed() -> None:
    """vLLM serves requests in their order: two prompts of 64 would leave the decode nothing."""
    scheduler, pacing, _ = make(request(0), request(8), request(100), most=64, waiting=1)
    assert step(scheduler, pacing, {"0": 32, "1": 32, "2": 1}) == (65, 32)


def test_a_preempted_answer_is_paced_like_a_prompt() -> None:
    """Its prompt is computed again, and its answer is not yet."""
    scheduler, pacing, _ = make(request(100), request(150, prompt=100), most=64, waiting=1)
    scheduler.running[1].is_prefill_chunk = True
    assert step(scheduler, pacing, {"0": 1, "1": 64}) == (65, 64)
    scheduler.num_waiting = 0
    assert step(scheduler, pacing, {"0": 1, "1": 64}) == (65, 64)


def test_in_a_pipeline_a_step_is_timed_from_its_start(clock: list[float]) -> None:
    """Results of the other stages' steps, also of empty ones, come between."""
    scheduler, pacing, pacer = make(request(100), most=64)
    scheduler.vllm_config.parallel_config.pipeline_parallel_size = 2
    pacing = SchedulerPacing(scheduler, 0.05)
    pacing._pacer = pacer  # type: ignore[assignment]
    first, empty, second = output_of({"0": 1}), output_of({}), output_of({"1": 1})
    for output in (first, empty, second):
        pacing.before_schedule(scheduler)
        pacing.step_scheduled(output)
        clock[0] += 1.0
    for output in (first, empty, second):
        pacing.after_step(scheduler, output)
        clock[0] += 0.5
    pacing.before_schedule(scheduler)
    assert [seconds for seconds, *_ in pacer.seen] == [3.0, 2.0]


@pytest.mark.parametrize(
    ("most", "chunk", "expected"),
    [
        (5000, CHUNK, (BUDGET, CHUNK)),  # never above the configured limits
        (600, CHUNK, (600 + 4, CHUNK)),
        (600, 0, (600 + 4, 600)),  # 0 is vLLM's "no limit"
        (2, CHUNK, (2 + 4, 4)),  # a decode with three drafts needs a chunk of 4
        (0, 0, (0 + 4, 4)),
    ],
)
def test_limits_stay_between_the_drafts_and_the_configuration(
    most: int, chunk: int, expected: tuple[int, int]
) -> None:
    scheduler, pacing, _ = make(request(100, 3), most=most, chunk=chunk, waiting=1)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == expected


def test_limits_return_to_the_configuration_when_no_answer_is_under_way() -> None:
    scheduler, pacing, _ = make(request(100), most=16, waiting=1)
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (17, 16)
    scheduler.running = [request(0)]
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)


def test_the_pacer_learns_the_time_and_the_prompt_tokens_of_each_step(clock: list[float]) -> None:
    """The first is timed from its own start, the others from the end of the one before.

    A decode with three drafts and a chunk of 30: 29 count as prompt, since each request computes
    one token in any case.
    """
    scheduler, pacing, pacer = make(request(100, 3), most=64, waiting=1)
    pacing.before_schedule(scheduler)
    first = output_of({"0": 4, "1": 30}, drafts=3)
    pacing.step_scheduled(first)
    clock[0] += 0.25
    pacing.after_step(scheduler, first)
    clock[0] += 0.01
    pacing.before_schedule(scheduler)
    second = output_of({"0": 1, "1": 1})
    pacing.step_scheduled(second)
    clock[0] += 0.02
    pacing.after_step(scheduler, second)
    pacing.before_schedule(scheduler)
    assert pacer.seen == [(0.25, 29, True), (0.03, 0, True)]


def test_the_drafts_of_a_step_belong_to_it(clock: list[float]) -> None:
    """They are made after its results: 0.25 s for the target and 0.1 s for the draft model, then
    0.02 s without drafts."""
    scheduler, pacing, pacer = make(request(100), most=64, waiting=1)
    for target_s, drafts_s in ((0.25, 0.1), (0.02, 0.0)):
        output = output_of({"0": 1, "1": 30})
        pacing.before_schedule(scheduler)
        pacing.step_scheduled(output)
        clock[0] += target_s
        pacing.after_step(scheduler, output)
        clock[0] += drafts_s
        pacing.after_drafts()
    assert [seconds for seconds, *_ in pacer.seen] == pytest.approx([0.35, 0.02])


@pytest.mark.parametrize("why", ["no more work", "nothing ran"])
def test_after_a_pause_a_step_is_timed_from_its_start(why: str, clock: list[float]) -> None:
    """The engine was idle, or its last requests were aborted, which ends no step."""
    scheduler, pacing, pacer = make(request(100), most=64)
    scheduler.has_requests = lambda: why == "nothing ran"
    step(scheduler, pacing, {"0": 1})
    clock[0] += 60.0
    if why == "nothing ran":
        scheduler.running.clear()
        scheduler.num_waiting = 1
    output = output_of({"1": 50})
    pacing.before_schedule(scheduler)
    pacing.step_scheduled(output)
    clock[0] += 0.5
    pacing.after_step(scheduler, output)
    pacing.after_drafts()
    assert pacer.seen[1] == (0.5, 49, why == "no more work")


def test_a_step_scheduled_before_the_results_of_the_last_is_timed_from_these(
    clock: list[float],
) -> None:
    """Asynchronous scheduling. One that never finished teaches nothing."""
    scheduler, pacing, pacer = make(request(100), most=64)
    outputs = [output_of({"0": 1}) for _ in range(4)]
    for output in outputs[:2]:
        pacing.before_schedule(scheduler)
        pacing.step_scheduled(output)
    clock[0] += 1.0
    pacing.after_step(scheduler, outputs[0])
    for output in outputs[2:]:
        pacing.before_schedule(scheduler)
        pacing.step_scheduled(output)
    clock[0] += 2.0
    pacing.after_step(scheduler, outputs[1])
    clock[0] += 3.0
    pacing.after_step(scheduler, outputs[3])
    pacing.after_step(scheduler, outputs[3])
    assert [seconds for seconds, *_ in pacer.seen] == [1.0, 2.0, 3.0]


def test_the_objective_is_the_pacers() -> None:
    scheduler, _, _ = make()
    with pytest.raises(ValueError, match=r"objective_s is 0\.0; it must be positive"):
        SchedulerPacing(scheduler, 0.0)


def test_a_step_without_tokens_is_no_step() -> None:
    scheduler, pacing, pacer = make(request(100), most=64)
    step(scheduler, pacing, {})
    step(scheduler, pacing, {"0": 1})
    assert len(pacer.seen) == 1


def test_after_an_error_the_configured_limits_apply_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One log line; the pacer is neither asked nor taught any more."""
    scheduler, pacing, pacer = make(request(100), most=64, waiting=1)
    pacing.before_schedule(scheduler)
    pacer.most = ZeroDivisionError("planted")
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)
    pacer.most = 64
    step(scheduler, pacing, {"0": 1})
    assert limits(scheduler) == (BUDGET, CHUNK)
    assert (pacer.num_asked, pacer.seen) == (2, [])
    assert [record.getMessage() for record in caplog.records] == [
        "Pacing: ZeroDivisionError before a step: planted. Prefill pacing is off until the engine "
        "restarts; vLLM's configured limits apply."
    ]


@pytest.mark.parametrize("where", ["with a scheduled step", "after the drafts of a step"])
def test_errors_around_a_step_switch_pacing_off(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An output that is another one than expected; a time that the pacer cannot take."""
    scheduler, pacing, pacer = make(request(100), most=64, waiting=1)
    if where == "after the drafts of a step":
        pacer.observe_error = ZeroDivisionError("planted")
        step(scheduler, pacing, {"0": 1})
    else:
        pacing.before_schedule(scheduler)
        pacing.step_scheduled(SimpleNamespace(num_scheduled_tokens={"0": 1}))
    [record] = caplog.records
    assert f" {where}: " in record.getMessage()
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)


@pytest.mark.parametrize("ends", [False, True])
def test_where_no_step_can_be_timed_prompts_do_not_wait_for_it(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each would be lean: vLLM ends no step, or ends others than it scheduled.

    One that was timed begins the count anew.
    """
    scheduler, pacing, _ = make(request(100), most=0, waiting=1)

    def steps(number: int) -> None:
        for _ in range(number):
            pacing.before_schedule(scheduler)
            pacing.step_scheduled(output_of({"0": 1}))
            if ends:
                pacing.after_step(scheduler, output_of({"0": 1}))

    steps(63)
    step(scheduler, pacing, {"0": 1})
    steps(64)
    assert not caplog.records
    steps(1)
    [record] = caplog.records
    assert "none of the last 64 steps could be timed" in record.getMessage()
    pacing.before_schedule(scheduler)
    assert limits(scheduler) == (BUDGET, CHUNK)
