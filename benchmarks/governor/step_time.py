"""Measure the time that the governor needs per engine step.

The steps are those of a batch that drafts, verifies and changes in size, with substitutes for
vLLM's objects. Half of the requests are greedy and half sampled. These parts are timed in turn
within every step, by the wall clock and in CPU time of the thread:

- policy: `observe` and `plan`, the decision itself
- widths: `choose_widths`, in steps whose plan has a rule; only with `--confidences`
- whole: the policy and all that `engine.scheduler` does around it: measuring the load, counting the
  drafts, making the sample, locks and telemetry. It excludes vLLM's call per request and draft.
- machine: a constant sum that takes as long as the policy in the median. The difference between its
  P99 and its P50 comes from the machine (timer ticks, other processes).

The script also counts runs of Python's garbage collector during the timed parts.

    python benchmarks/governor/step_time.py --num-requests 256 --results benchmarks/results
    python benchmarks/governor/step_time.py --num-requests 256 --confidences early
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.scheduler import step_clock
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.observer import StepObserver, VerifiedDraft
from paceline.runtime.engine.scheduler.request_ledger import RequestLedger
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.policy import ChoosesWidths
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.runtime.policy_registry import create_policy, policy_names

MAX_DRAFT_LENGTH = 8
NUM_WARM_UP_STEPS = 500
SCHEDULE = [(1, 4096, 4)]
PARTS = ("policy", "widths", "whole", "machine")
CONFIDENCES = ("none", "early")
"""What the engine does with confidences: it reports none, or drafts end early and a part of them is
verified."""
CLASSES = ("greedy", "sampled")
_ENDS = 1 / 64
"""Fraction of the requests that end in each step: answers of 256 tokens at 4 per step."""
_FIRST_SPINS = 800


@dataclass(slots=True)
class Request:
    """The attributes of vLLM's Request that the observer reads."""

    num_computed_tokens: int = 1000
    num_prompt_tokens: int = 900
    num_stale_output_tokens: int = 0
    status: int = 5

    def is_finished(self) -> bool:
        return self.status > 6


@dataclass(slots=True, eq=False)
class Output:
    """The attributes of vLLM's SchedulerOutput that the observer reads."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]]
    total_num_scheduled_tokens: int


@dataclass
class Engine:
    """The steps of a simulated engine, with the governor called as the scheduler calls it."""

    policy_name: str
    num_requests: int
    random: random.Random
    now_s: float = 0.0
    last_length: int = 0
    ids: list[str] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        abilities = EngineAbilities(MAX_DRAFT_LENGTH, "draft_model")
        self.observer = StepObserver(abilities, RequestLedger())
        self.controller = DraftLengthController(
            PluginSettings(policy=self.policy_name, draft_length=4, schedule=SCHEDULE), abilities
        )
        step_clock.time = self  # type: ignore[attr-defined]

    def monotonic(self) -> float:
        """The time of the simulated engine, which its observer reads."""
        return self.now_s

    def next_step(self) -> Callable[[], tuple[StepSample, EngineLoad]]:
        """Prepare a step and return the governor's work in it as a function.

        Acceptance is 0.7 per position, the noise 5 %, and lengths range from 0 to the maximum.
        """
        draw = self.random
        batch = self.num_requests - draw.randrange(min(self.num_requests, 3))
        self.ids = [name for name in self.ids if draw.random() > _ENDS][:batch]
        while len(self.ids) < batch:
            self.ids.append(f"request-{self.started}")
            self.started += 1
        length, drafted = draw.choice([0, 1, 2, 3, 4, 4, 4, 5, 8]), self.last_length
        self.last_length = length
        requests = {name: Request() for name in self.ids}
        output = Output(
            dict.fromkeys(self.ids, 1 + drafted),
            {name: [-1] * drafted for name in self.ids} if drafted else {},
            batch * (1 + drafted),
        )
        found = [(name, drafted, _accepted(drafted, draw)) for name in self.ids] if drafted else []
        after = {name: request for name, request in requests.items() if draw.random() > _ENDS}
        seconds = 0.03 + 1e-4 * output.total_num_scheduled_tokens + 1e-3 * length
        seconds *= draw.lognormvariate(0.0, 0.05)
        return lambda: self._step(output, requests, found, after, length, seconds)

    def _step(
        self,
        output: Output,
        requests: dict[str, Request],
        found: list[VerifiedDraft],
        after: dict[str, Request],
        length: int,
        seconds: float,
    ) -> tuple[StepSample, EngineLoad]:
        observer, controller = self.observer, self.controller
        scheduler = SimpleNamespace(
            running=requests,
            requests=requests,
            get_request_counts=lambda: (len(requests), 0),
            has_requests=lambda: True,
        )
        observer.begin(scheduler)
        load = observer.measure_load(output, scheduler, ceiling=controller.ceiling())
        controller.plan(load)
        observer.step_scheduled(output, load, length)
        self.now_s += seconds
        if found:
            _, drafted, accepted = zip(*found, strict=True)
            controller.count_drafts(drafted, accepted)
        scheduler.requests = after
        finished = observer.step_finished(output, scheduler)
        assert finished is not None
        sample = observer.make_sample(finished, after, verified=found, confidences={}, kept={})
        controller.observe(sample)
        observer.settle(finished.noted, after)
        return sample, load


def as_reported(
    sample: StepSample, load: EngineLoad, confidences: str, draw: np.random.Generator
) -> tuple[StepSample, EngineLoad]:
    """The sample and the load with classes and, unless "none", confidences."""
    num_greedy = (load.num_requests + 1) // 2
    load = replace(
        load,
        classes={"greedy": num_greedy, "sampled": load.num_requests - num_greedy},
        reports_confidences=confidences != "none",
    )
    num_judged = len(sample.drafted)
    classes = (CLASSES * (num_judged // 2 + 1))[:num_judged]
    if confidences == "none":
        return replace(sample, classes=classes), load
    rows = tuple(tuple(draw.random(num_drafted).tolist()) for num_drafted in sample.drafted)
    return replace(sample, classes=classes, confidences=rows), load


def _accepted(drafted: int, draw: random.Random) -> int:
    return next((i for i in range(drafted) if draw.random() > 0.7), drafted)


def _spin(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def measure(
    policy_name: str, num_requests: int, num_steps: int, confidences: str
) -> tuple[np.ndarray, int]:
    """Wall and CPU microseconds, (num_steps, len(PARTS), 2), NaN for steps without a part, and the
    number of collections."""
    engine = Engine(policy_name, num_requests, random.Random(0))
    draw = np.random.default_rng(0)
    policy = create_policy(
        policy_name, max_draft_length=MAX_DRAFT_LENGTH, draft_length=4, schedule=SCHEDULE
    )
    collections = 0
    spins = _FIRST_SPINS
    taken = np.full((NUM_WARM_UP_STEPS + num_steps, len(PARTS), 2), np.nan)

    def timed(index: int, part: str, work: Callable[[], Any]) -> Any:
        cpu_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
        result = work()
        wall_ns, cpu_ns = time.perf_counter_ns() - wall_ns, time.thread_time_ns() - cpu_ns
        taken[index, PARTS.index(part)] = wall_ns / 1000, cpu_ns / 1000
        return result

    def decide(sample: StepSample, load: EngineLoad) -> DraftPlan:
        policy.observe(sample)
        return policy.plan(load)

    for index in range(len(taken)):
        if index == NUM_WARM_UP_STEPS:
            median_us = np.nanmedian(taken[:index, :, 1], axis=0)
            policy_us, spins_us = (median_us[PARTS.index(part)] for part in ("policy", "machine"))
            spins = max(int(spins * policy_us / spins_us), 1)
        step = engine.next_step()
        before = _num_collections()
        sample, load = timed(index, "whole", step)
        sample, load = as_reported(sample, load, confidences, draw)
        plan = timed(index, "policy", lambda s=sample, ld=load: decide(s, ld))
        if plan.rule is not None and isinstance(policy, ChoosesWidths):
            drafts = draw.random((load.num_requests, plan.draft_length))
            classes = (CLASSES * load.num_requests)[: load.num_requests]
            limits = [plan.draft_length] * load.num_requests
            choose = partial(policy.choose_widths, drafts, classes, limits)
            timed(index, "widths", choose)
        collections += _num_collections() - before
        timed(index, "machine", lambda n=spins: _spin(n))
    return taken[NUM_WARM_UP_STEPS:], collections


def _num_collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def main() -> None:
    arguments = _parse()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = (
        ResultFile(
            arguments.results / f"governor-step-time-{today}.json",
            allow_dirty=arguments.allow_dirty,
        )
        if arguments.results
        else None
    )
    found = []
    for repeat in range(arguments.repeats):
        for name in arguments.policies:
            for num_requests in arguments.num_requests:
                taken, collections = measure(
                    name, num_requests, arguments.num_steps, arguments.confidences
                )
                row = {"arm": name, "num_requests": num_requests, "repeat": repeat}
                row["confidences"] = arguments.confidences
                shown = []
                for part, columns in zip(PARTS, taken.transpose(1, 2, 0), strict=True):
                    if np.isnan(columns).all():
                        continue
                    wall, cpu = (np.nanpercentile(c, [50, 99]).round(1).tolist() for c in columns)
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
    if result:
        document = {
            "schema_version": 2,
            "kind": "governor step time",
            "environment": asdict(describe_environment(sys.argv)),
            "num_steps": arguments.num_steps,
            "runs": found,
        }
        result.write(document)
        print(f"written: {result.path}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-requests", type=int, nargs="+", default=[1, 16, 256], metavar="N")
    parser.add_argument("--num-steps", type=int, default=5000, metavar="N")
    parser.add_argument("--policies", nargs="+", choices=policy_names(), default=["goodput"])
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--confidences",
        choices=CONFIDENCES,
        default=CONFIDENCES[0],
        help="what the engine does with the draft model's confidences",
    )
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if arguments.results is not None and not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}; it must be an existing folder")
    return arguments


if __name__ == "__main__":
    main()
