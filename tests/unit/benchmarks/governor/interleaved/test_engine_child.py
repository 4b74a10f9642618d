"""The work of a turn and the record of its steps, on an engine without drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from benchmarks.governor.interleaved.engine_child import PausableClock, Runner


@dataclass
class Request:
    """The attributes of vLLM's Request that the child reads."""

    request_id: str
    num_prompt_tokens: int
    max_tokens: int
    num_computed_tokens: int = 0
    num_output_tokens: int = 0
    spec_token_ids: list[int] = field(default_factory=list)


@dataclass
class Output:
    """The attributes of vLLM's SchedulerOutput that the child reads."""

    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)


class Scheduler:
    """Schedules one token per decoding request and the rest of the budget for prompts, in order."""

    def __init__(self) -> None:
        self.max_num_scheduled_tokens = 100
        self.requests: dict[str, Request] = {}
        self.waiting: list[Request] = []
        self.budgets: list[int] = []

    @property
    def running(self) -> list[Request]:
        return list(self.requests.values())

    def schedule(self) -> Output:
        self.budgets.append(self.max_num_scheduled_tokens)
        left, scheduled = self.max_num_scheduled_tokens, {}
        for name, request in self.requests.items():
            needed = max(request.num_prompt_tokens - request.num_computed_tokens, 1)
            if number := min(needed, left):
                scheduled[name] = number
                left -= number
        output = Output(scheduled, sum(scheduled.values()))
        self._update_after_schedule(output)
        return output

    def _update_after_schedule(self, output: Output) -> None:
        for name, number in output.num_scheduled_tokens.items():
            self.requests[name].num_computed_tokens += number


class Engine:
    """Emits one token for each request whose prompt is computed."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.added: list[tuple[str, Any]] = []
        self.aborted: list[str] = []

    def add_request(self, name: str, prompt: dict[str, Any], sampling: Any) -> None:
        self.added.append((name, sampling))
        ids = prompt["prompt_token_ids"]
        self.scheduler.requests[name] = Request(name, len(ids), sampling.max_tokens)

    def abort_request(self, names: list[str]) -> None:
        self.aborted += names
        for name in names:
            del self.scheduler.requests[name]

    def has_unfinished_requests(self) -> bool:
        return bool(self.scheduler.requests)

    def step(self) -> list[Any]:
        outputs = []
        for name in self.scheduler.schedule().num_scheduled_tokens:
            request = self.scheduler.requests[name]
            if request.num_computed_tokens < request.num_prompt_tokens:
                continue
            request.num_output_tokens += 1
            is_finished = request.num_output_tokens == request.max_tokens
            if is_finished:
                del self.scheduler.requests[name]
            completion = SimpleNamespace(token_ids=[1])
            outputs.append(
                SimpleNamespace(request_id=name, outputs=[completion], finished=is_finished)
            )
        return outputs


def order(**changes: Any) -> dict[str, Any]:
    request = {"ids": [1] * 16, "max_tokens": 5, "ignore_eos": True, "temperature": 1.0}
    return {
        "requests": [request | {"seed": 7}, request | {"seed": 8}],
        "concurrency": 2,
        "num_tokens": 20,
        "spreads_prefills": False,
    } | changes


def run(**changes: Any) -> tuple[dict[str, Any], Engine]:
    engine = Engine()
    runner = Runner(engine, engine.scheduler, lambda **given: SimpleNamespace(**given))
    return runner.run(order(**changes)), engine


def test_a_closed_loop_ends_with_the_work_and_does_not_count_the_lead_in() -> None:
    figures, engine = run()
    assert figures["lead_in"] == 1  # the step of both prompts
    assert figures["tokens"] == 20
    assert figures["steps"]["tokens"] == [2] * 11
    assert engine.aborted == ["1-4", "1-5"]
    assert not engine.has_unfinished_requests()


def test_repeated_requests_have_other_seeds() -> None:
    _, engine = run()
    assert [sampling.seed for _, sampling in engine.added][:4] == [7, 8, 9, 10]


def test_batches_run_to_their_end_one_after_another() -> None:
    requests = order()["requests"] * 2
    for number, request in enumerate(requests):
        requests[number] = request | {"max_tokens": 3 + 3 * (number % 2)}
    figures, _ = run(requests=requests, num_tokens=None)
    assert figures["lead_in"] == 0
    assert figures["tokens"] == 2 * (3 + 6)
    assert figures["steps"]["requests"] == [2, 2, 2, 1, 1, 1] * 2


def test_spread_prefills_leave_the_decode_rate_and_last_several_steps() -> None:
    """Prompts of 32 tokens: an eighth of what is left in each step, beside one token per decode."""
    figures, engine = run(spreads_prefills=True)
    assert engine.scheduler.budgets[0] == 4
    assert sum(figures["steps"]["prompt_tokens"][:3]) == 4 + 4 + 3
    figures, engine = run()
    assert figures["steps"]["prompt_tokens"][:2] == [32, 0]
    assert engine.scheduler.budgets[0] == 100


def test_a_slow_down_marks_its_part_of_the_work() -> None:
    figures, _ = run(slow_down={"factor": 1.5, "from": 0.5, "to": 0.8})
    slowed = figures["steps"]["slowed"]
    assert slowed == [0] + [0] * 5 + [1] * 3 + [0] * 2


def test_a_turn_pauses_after_every_slice_but_the_last() -> None:
    engine, counts = Engine(), []
    runner = Runner(
        engine,
        engine.scheduler,
        lambda **given: SimpleNamespace(**given),
        pause=lambda: counts.append(len(engine.scheduler.budgets)),
    )
    figures = runner.run(order(slices=4))
    # 20 tokens at 2 per step after one step of lead-in: 5 tokens are passed after 3 steps.
    assert counts == [1 + 3, 1 + 5, 1 + 8]
    assert figures["tokens"] == 20


def test_the_clock_stands_still_in_a_pause() -> None:
    clock = PausableClock()
    before_s = clock.monotonic(), clock.perf_counter()
    clock.paused_s = 1000.0
    assert clock.monotonic() < before_s[0] - 900
    assert clock.perf_counter() < before_s[1] - 900
    assert clock.time_ns() > 0  # everything else is that of the module
