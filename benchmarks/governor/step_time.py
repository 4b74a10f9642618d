"""How long does the governor think in one step?

Steps of a batch that drafts, verifies and changes in size, on stand-ins of vLLM's objects. Timed in
turn within every step, each by the wall clock and in CPU time of the thread:

- policy: `observe` and `plan`, what decides
- whole: the policy with all that `engine.scheduler` does around it: measuring the load, counting
  the drafts, making the sample, locks and telemetry. Not vLLM's call per request and draft.
- machine: a sum that takes as long as the policy does in the median, and is always the same. What
  its P99 has more than its P50 is the machine's doing (timer ticks, other processes).

Collections by Python's garbage collector that fall into the timed parts are counted.

    python benchmarks/governor/step_time.py --num-requests 256 --results benchmarks/results
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paceline.bench.results.environment import describe_environment
from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.observer import StepObserver, VerifiedDraft
from paceline.engine.scheduler.settings import PluginSettings
from paceline.governor.policies.registry import POLICY_NAMES, create_policy
from paceline.governor.values import EngineLoad, StepSample

MAX_DRAFT_LENGTH = 8
NUM_WARM_UP_STEPS = 500
SCHEDULE = [(1, 4096, 4)]
PARTS = ("policy", "whole", "machine")
_ENDS = 1 / 64
"""Of the requests in each step: answers of 256 tokens at 4 a step."""
_FIRST_SPINS = 800


@dataclass(slots=True)
class Request:
    """vLLM's Request, as far as it is read."""

    num_computed_tokens: int = 1000
    num_stale_output_tokens: int = 0
    status: int = 5

    def is_finished(self) -> bool:
        return self.status > 6


@dataclass(slots=True, eq=False)
class Output:
    """vLLM's SchedulerOutput, as far as it is read."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]]
    total_num_scheduled_tokens: int


@dataclass
class Engine:
    """The steps that an engine would make, and the governor's parts as the scheduler calls them."""

    policy_name: str
    num_requests: int
    random: random.Random
    observer: StepObserver = field(default_factory=lambda: StepObserver(drafter_rests=False))
    now_s: float = 0.0
    asked: int = 0
    ids: list[str] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        self.steering = DraftLengthController(
            PluginSettings(policy=self.policy_name, draft_length=4, schedule=SCHEDULE),
            max_draft_length=MAX_DRAFT_LENGTH,
            method="draft_model",
        )

    def next_step(self) -> Callable[[], tuple[StepSample, EngineLoad]]:
        """Prepare a step: acceptance 0.7 a position, 5 % noise, lengths from 0 to the maximum;
        returns what the governor does in it."""
        draw = self.random
        batch = self.num_requests - draw.randrange(min(self.num_requests, 3))
        self.ids = [name for name in self.ids if draw.random() > _ENDS][:batch]
        while len(self.ids) < batch:
            self.ids.append(f"request-{self.started}")
            self.started += 1
        length, asked = draw.choice([0, 1, 2, 3, 4, 4, 4, 5, 8]), self.asked
        self.asked = length
        requests = {name: Request() for name in self.ids}
        output = Output(
            dict.fromkeys(self.ids, 1 + asked),
            {name: [-1] * asked for name in self.ids} if asked else {},
            batch * (1 + asked),
        )
        found = [(name, asked, _accepted(asked, draw)) for name in self.ids] if asked else []
        after = {name: request for name, request in requests.items() if draw.random() > _ENDS}
        seconds = 0.03 + 1e-4 * output.total_num_scheduled_tokens + 1e-3 * length
        started_s, self.now_s = self.now_s, self.now_s + seconds * draw.lognormvariate(0.0, 0.05)
        return lambda: self._step(output, requests, found, after, length, started_s)

    def _step(
        self,
        output: Output,
        requests: dict[str, Request],
        found: list[VerifiedDraft],
        after: dict[str, Request],
        length: int,
        started_s: float,
    ) -> tuple[StepSample, EngineLoad]:
        observer, steering = self.observer, self.steering
        load = observer.measure_load(
            output, requests, num_waiting=0, max_draft_length=steering.ceiling()
        )
        steering.plan(load)
        observer.step_scheduled(output, load, started_s=started_s, draft_length=length)
        if found:
            _, drafted, accepted = zip(*found, strict=True)
            steering.count_drafts(drafted, accepted)
        sample = observer.step_finished(
            output, after, verified=found, now_s=self.now_s, has_more_work=True, may_speculate=True
        )
        assert sample is not None
        steering.observe(sample)
        return sample, load


def _accepted(drafted: int, draw: random.Random) -> int:
    return next((i for i in range(drafted) if draw.random() > 0.7), drafted)


def _spin(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def measure(policy_name: str, num_requests: int, num_steps: int) -> tuple[np.ndarray, int]:
    """Microseconds by the wall and of CPU, shape (num_steps, len(PARTS), 2); and collections."""
    engine = Engine(policy_name, num_requests, random.Random(0))
    policy = create_policy(
        policy_name, max_draft_length=MAX_DRAFT_LENGTH, draft_length=4, schedule=SCHEDULE
    )
    collections = 0
    spins = _FIRST_SPINS
    taken = np.empty((NUM_WARM_UP_STEPS + num_steps, len(PARTS), 2))

    def timed(index: int, part: str, work: Callable[[], Any]) -> Any:
        cpu_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
        result = work()
        wall_ns, cpu_ns = time.perf_counter_ns() - wall_ns, time.thread_time_ns() - cpu_ns
        taken[index, PARTS.index(part)] = wall_ns / 1000, cpu_ns / 1000
        return result

    def decide(sample: StepSample, load: EngineLoad) -> None:
        policy.observe(sample)
        policy.plan(load)

    for index in range(len(taken)):
        if index == NUM_WARM_UP_STEPS:
            median_us = np.median(taken[:index, :, 1], axis=0)
            policy_us, spins_us = (median_us[PARTS.index(part)] for part in ("policy", "machine"))
            spins = max(int(spins * policy_us / spins_us), 1)
        step = engine.next_step()
        before = _num_collections()
        sample, load = timed(index, "whole", step)
        timed(index, "policy", lambda s=sample, ld=load: decide(s, ld))
        collections += _num_collections() - before
        timed(index, "machine", lambda n=spins: _spin(n))
    return taken[NUM_WARM_UP_STEPS:], collections


def _num_collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def main() -> None:
    arguments = _parse()
    found = []
    for repeat in range(arguments.repeats):
        for name in arguments.policies:
            for num_requests in arguments.num_requests:
                taken, collections = measure(name, num_requests, arguments.num_steps)
                row = {"policy": name, "num_requests": num_requests, "repeat": repeat}
                shown = []
                for part, columns in zip(PARTS, taken.transpose(1, 2, 0), strict=True):
                    wall, cpu = (np.percentile(c, [50, 99]).round(1).tolist() for c in columns)
                    row[part] = {
                        "wall_p50_us": wall[0],
                        "wall_p99_us": wall[1],
                        "cpu_p50_us": cpu[0],
                        "cpu_p99_us": cpu[1],
                    }
                    shown.append(
                        f"{part} {wall[0]:.1f}/{wall[1]:.1f} (CPU {cpu[0]:.1f}/{cpu[1]:.1f})"
                    )
                row["num_collections"] = collections
                found.append(row)
                print(f"{name} at {num_requests}, P50/P99 us: " + ", ".join(shown), flush=True)
    if arguments.results:
        document = {
            "schema_version": 2,
            "kind": "governor step time",
            "environment": asdict(describe_environment(sys.argv)),
            "num_steps": arguments.num_steps,
            "runs": found,
        }
        today = time.strftime("%Y-%m-%d", time.gmtime())
        target = arguments.results / f"governor-step-time-{today}.json"
        target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"written: {target}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-requests", type=int, nargs="+", default=[1, 16, 256], metavar="N")
    parser.add_argument("--num-steps", type=int, default=5000, metavar="N")
    parser.add_argument("--policies", nargs="+", choices=POLICY_NAMES, default=["goodput"])
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.results is not None and not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}, which is no folder")
    return arguments


if __name__ == "__main__":
    main()
