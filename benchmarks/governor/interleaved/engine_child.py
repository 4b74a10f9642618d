"""One engine in a process of its own, which runs turns on request.

The parent starts this file with the PYTHONPATH of the arm's checkout, so it imports nothing of the
benchmarks. One JSON object per line comes in on stdin and is answered by one line.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_SPREAD_STEPS = 8
"""A `prefill` phase computes an eighth of the prompt tokens that wait in each step. So prompts are
under way at most steps without limiting the decode rate; chosen empirically."""
_NUMBERS = re.compile(r"[-+]?\d+(\.\d+)?")


class PausableClock:
    """The module `time` without the moments in which the engine was paused between two steps."""

    def __init__(self) -> None:
        self.paused_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        return time.monotonic() - self.paused_s

    def perf_counter(self) -> float:
        return time.perf_counter() - self.paused_s

    def install(self) -> list[str]:
        """Give this clock to all modules of Paceline that read one; their names."""
        found = []
        for name, module in list(sys.modules.items()):
            if name.startswith("paceline.") and getattr(module, "time", None) is time:
                module.time = self  # type: ignore[attr-defined]
                found.append(name)
        return found


class StepRecorder:
    """Columns of every step: what was scheduled, and what the governor planned."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._configured_tokens: int = scheduler.max_num_scheduled_tokens
        self.spreads_prefills = False
        self._reasons: dict[str, int] = {}
        self._columns: dict[str, list[Any]] = {}
        self.reset()
        self._schedule, self._update = scheduler.schedule, scheduler._update_after_schedule
        scheduler.schedule = self._limited_schedule
        governor = getattr(scheduler, "governor", None)
        if governor is not None:
            self._observe = governor._controller.observe
            governor._controller.observe = self._recorded_observe
        scheduler._update_after_schedule = self._recorded_update

    def reset(self) -> None:
        """Start the columns of a new turn."""
        names = ("planned", "requests", "scheduled", "prompt_tokens", "drafted", "exploring")
        names = (*names, "predicted_tps", "predicted_ms", "passes", "reason")
        self._columns = {name: [] for name in names}
        self._reasons = {}

    def columns(self) -> dict[str, list[Any]]:
        return self._columns

    def reasons(self) -> list[str]:
        """The texts that the column `reason` counts."""
        return list(self._reasons)

    def _limited_schedule(self, *args: Any, **kwargs: Any) -> Any:
        scheduler = self._scheduler
        tokens = self._configured_tokens
        if self.spreads_prefills:
            decoding = prompt = 0
            for request in scheduler.running:
                left = request.num_prompt_tokens - request.num_computed_tokens
                if left > 0:
                    prompt += left
                else:
                    decoding += 1 + len(request.spec_token_ids)
            prompt += sum(request.num_prompt_tokens for request in scheduler.waiting)
            tokens = min(tokens, decoding + -(-prompt // _SPREAD_STEPS))
        scheduler.max_num_scheduled_tokens = max(tokens, 1)
        return self._schedule(*args, **kwargs)

    def _recorded_update(self, output: Any) -> Any:
        prompt_tokens = 0
        for request_id, number in output.num_scheduled_tokens.items():
            request = self._scheduler.requests[request_id]
            left = request.num_prompt_tokens - request.num_computed_tokens
            if left > 0:
                prompt_tokens += min(left, number)
        result = self._update(output)
        plan = self._plan()
        columns = self._columns
        columns["planned"].append(0 if plan is None else plan.draft_length)
        columns["requests"].append(len(output.num_scheduled_tokens))
        columns["scheduled"].append(output.total_num_scheduled_tokens)
        columns["prompt_tokens"].append(prompt_tokens)
        drafts = output.scheduled_spec_decode_tokens.values()
        columns["drafted"].append(sum(map(len, drafts)))
        columns["exploring"].append(int(plan is not None and plan.is_exploring))
        rate_seconds = self._predicted(plan)
        columns["predicted_tps"].append(rate_seconds[0])
        columns["predicted_ms"].append(rate_seconds[1])
        reason = "" if plan is None else _NUMBERS.sub("#", plan.reason)
        columns["reason"].append(self._reasons.setdefault(reason, len(self._reasons)))
        return result

    def _recorded_observe(self, sample: Any) -> None:
        self._columns["passes"].append(sample.draft_length)
        self._observe(sample)

    def _predicted(self, plan: Any) -> tuple[float | None, float | None]:
        """Tokens per second and milliseconds that the policy expects; None where it does not."""
        if plan is None or plan.expected_tokens_per_s is None:
            return None, None
        seconds = self._scheduler.governor._controller.step_seconds()
        length = plan.draft_length
        step_ms = round(1e3 * seconds[length], 2) if length < len(seconds) else None
        return round(plan.expected_tokens_per_s, 1), step_ms

    def _plan(self) -> Any:
        governor = getattr(self._scheduler, "governor", None)
        return None if governor is None else governor._controller._plan


class Runner:
    """Runs turns on one engine."""

    def __init__(
        self,
        engine: Any,
        scheduler: Any,
        make_sampling: Callable[..., Any],
        clock: Any = time,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """`make_sampling`: vLLM's SamplingParams with the outputs of each step alone.

        `pause` blocks until the parent continues this engine; `clock` does not count that time.
        """
        self._clock = clock
        self._pause = pause
        self._engine = engine
        self._scheduler = scheduler
        self._make_sampling = make_sampling
        self._recorder = StepRecorder(scheduler)
        self._num_turns = 0

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one turn and return its figures; what is unfinished at its end is aborted."""
        self._num_turns += 1
        self._recorder.reset()
        self._recorder.spreads_prefills = order["spreads_prefills"]
        slow, goal = order.get("slow_down"), order["num_tokens"]
        is_batched, room = goal is None, order["concurrency"]
        work = goal or sum(request["max_tokens"] for request in order["requests"])
        num_slices, num_pauses = order.get("slices", 1), 0
        coming = self._requests(order, repeats=not is_batched)
        live: set[str] = set()
        waiting_for_first = {f"{self._num_turns}-{index}" for index in range(room)}
        seconds: list[float] = []
        tokens: list[int] = []
        slowed: list[int] = []
        lead_in, counted = 0, 0
        cpu_s = time.process_time()
        now_s = self._clock.perf_counter()
        while is_batched or counted < goal:
            if work * (num_pauses + 1) / num_slices <= counted < work:
                num_pauses = int(counted * num_slices / work)
                self._pause()
            if not live or not is_batched:
                while len(live) < room and (request := next(coming, None)) is not None:
                    live.add(self._add(request))
                if not live:
                    break
            leads_in = bool(waiting_for_first) and not is_batched
            emitted = 0
            for output in self._engine.step():
                number = len(output.outputs[0].token_ids)
                emitted += number
                if number:
                    waiting_for_first.discard(output.request_id)
                if output.finished:
                    live.discard(output.request_id)
            is_slow = slow is not None and slow["from"] <= counted / goal < slow["to"]
            if is_slow:
                time.sleep((self._clock.perf_counter() - now_s) * (slow["factor"] - 1))
            before_s, now_s = now_s, self._clock.perf_counter()
            seconds.append(now_s - before_s)
            tokens.append(emitted)
            slowed.append(int(is_slow))
            if leads_in:
                lead_in, cpu_s = len(seconds), time.process_time()
            else:
                counted += emitted
        cpu_s = time.process_time() - cpu_s
        if live:
            self._engine.abort_request(sorted(live))
        while self._engine.has_unfinished_requests():
            self._engine.step()
        num_steps = len(seconds)
        columns = {k: values[:num_steps] for k, values in self._recorder.columns().items()}
        return {
            "lead_in": lead_in,
            "tokens": counted,
            "seconds": sum(seconds[lead_in:]),
            "cpu_seconds": cpu_s,
            "load_average": os.getloadavg()[0],
            "policy_errors": self._policy_errors(),
            "reasons": self._recorder.reasons(),
            "steps": {
                "ms": [round(1e3 * value, 2) for value in seconds],
                "tokens": tokens,
                **columns,
                **({"slowed": slowed} if slow else {}),
            },
        }

    def _requests(self, order: dict[str, Any], *, repeats: bool) -> Iterator[dict[str, Any]]:
        """The requests with their ids; endless with `repeats`, each time with other seeds."""
        given, number = order["requests"], 0
        while repeats or number < len(given):
            request = given[number % len(given)]
            again = number // len(given) * len(given)
            yield {
                **request,
                "seed": request["seed"] + again,
                "id": f"{self._num_turns}-{number}",
            }
            number += 1

    def _add(self, request: dict[str, Any]) -> str:
        name: str = request["id"]
        sampling = self._make_sampling(
            temperature=request["temperature"],
            max_tokens=request["max_tokens"],
            ignore_eos=request["ignore_eos"],
            seed=request["seed"] if request["temperature"] else None,
        )
        self._engine.add_request(name, {"prompt_token_ids": request["ids"]}, sampling)
        return name

    def _policy_errors(self) -> int:
        """Steps and samples that the policy lost to an exception; 0 without a governor."""
        governor = getattr(self._scheduler, "governor", None)
        return 0 if governor is None else int(governor.state().get("policy_errors_total", 0))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep what vLLM prints out of the answers
    # An arm may be a checkout from before the floors.
    engine_part = "paceline.runtime.engine" if find_spec("paceline.runtime") else "paceline.engine"
    import_module(f"{engine_part}.fixes.numba_pool").choose(is_child=True)
    import torch
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import RequestOutputKind

    engine: Any = LLM(**json.loads(sys.stdin.readline())).llm_engine
    make_sampling = functools.partial(SamplingParams, output_kind=RequestOutputKind.DELTA)
    clock = PausableClock()
    clocked = clock.install()
    scheduler = engine.engine_core.engine_core.scheduler
    step_clock = f"{engine_part}.scheduler.step_clock"
    if getattr(scheduler, "governor", None) is not None and step_clock not in clocked:
        raise SystemExit(f"{step_clock} does not read `time`; a pause would count as a slow step")

    def pause() -> None:
        began_s = time.monotonic()
        answers.write('{"paused": true}\n')
        sys.stdin.readline()
        clock.paused_s += time.monotonic() - began_s

    runner = Runner(engine, scheduler, make_sampling, clock, pause)
    answers.write(json.dumps({"num_threads": torch.get_num_threads()}) + "\n")
    while line := sys.stdin.readline():
        answers.write(json.dumps(runner.run(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
