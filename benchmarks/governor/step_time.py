"""How long does the governor think in one step?

Drives a policy through steps of a batch that drafts, verifies and changes in size by one now and
then, and times `observe` and `plan` together: everything the governor adds to a step, apart from
reading vLLM's objects.

    python benchmarks/governor/step_time.py --num-requests 256 --json benchmarks/results/….json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from paceline.bench.environment import describe_environment
from paceline.governor.factory import POLICY_NAMES, create_policy
from paceline.governor.values import EngineLoad, StepSample

MAX_DRAFT_LENGTH = 8
NUM_WARM_UP_STEPS = 500


def steps(num_requests: int, rng: random.Random) -> Iterator[tuple[StepSample, EngineLoad]]:
    """Endless clean steps: lengths 0 to the maximum, acceptance 0.7 a position, 5 % noise."""
    asked = 0
    while True:
        batch = num_requests - rng.randrange(min(num_requests, 3))
        length = rng.choice([0, 1, 2, 3, 4, 4, 4, 5, 8])
        accepted = tuple(_accepted(asked, rng) for _ in range(batch)) if asked else ()
        drafted = (asked,) * len(accepted)
        seconds = 0.03 + 1e-4 * (batch + sum(drafted)) + 1e-3 * length
        sample = StepSample(
            num_requests=batch,
            asked_draft_length=asked,
            drafted=drafted,
            accepted=accepted,
            verified_draft_tokens=sum(drafted),
            draft_length=length,
            prefill_tokens=0,
            context_tokens=1000 * batch,
            duration_s=seconds * rng.lognormvariate(0.0, 0.05),
            is_clean=True,
        )
        yield sample, EngineLoad(batch, 1000 * batch, 0, 0, MAX_DRAFT_LENGTH)
        asked = length


def _accepted(drafted: int, rng: random.Random) -> int:
    return next((i for i in range(drafted) if rng.random() > 0.7), drafted)


def measure(policy_name: str, num_requests: int, num_steps: int) -> np.ndarray:
    """Microseconds of each step, shape (num_steps,)."""
    policy = create_policy(
        policy_name, max_draft_length=MAX_DRAFT_LENGTH, draft_length=4, schedule=[(1, 4096, 4)]
    )
    stream = steps(num_requests, random.Random(0))
    prepared = [next(stream) for _ in range(NUM_WARM_UP_STEPS + num_steps)]
    taken = np.empty(len(prepared))
    for index, (sample, load) in enumerate(prepared):
        started_ns = time.perf_counter_ns()
        policy.observe(sample)
        policy.plan(load)
        taken[index] = (time.perf_counter_ns() - started_ns) / 1000
    return taken[NUM_WARM_UP_STEPS:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-requests", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--num-steps", type=int, default=5000)
    parser.add_argument("--policies", nargs="+", choices=POLICY_NAMES, default=["goodput"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    for name in arguments.policies:
        for num_requests in arguments.num_requests:
            for repeat in range(arguments.repeats):
                taken = measure(name, num_requests, arguments.num_steps)
                p50, p99 = np.percentile(taken, [50, 99]).round(1).tolist()
                row = {"policy": name, "num_requests": num_requests, "repeat": repeat}
                found.append({**row, "p50_us": p50, "p99_us": p99})
                print(f"{name:10} {num_requests:5} requests: p50 {p50:6.1f} us, p99 {p99:6.1f} us")
    if arguments.json:
        document = {
            "schema_version": 1,
            "kind": "governor step time",
            "environment": asdict(describe_environment(sys.argv)),
            "num_steps": arguments.num_steps,
            "runs": found,
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
