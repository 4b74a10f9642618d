"""The promises of a policy, each with a check that reports in words how it is broken.

The checks drive fresh policies with fixed samples; they use neither an engine nor a clock. That a
policy takes microseconds is therefore not checked here (`benchmarks/governor/step_time.py` does).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, repeat
from typing import Any

from paceline.runtime.governor.contract.driving import (
    Broken,
    MakePolicy,
    Step,
    build,
    drive,
    follow,
    observe,
)
from paceline.runtime.governor.contract.samples import (
    Spread,
    extreme_samples,
    ordinary_load,
    rich_load,
    varied_samples,
)
from paceline.runtime.governor.contract.width_promises import (
    chooses_widths_before_the_tokens,
    keeps_widths_within_the_drafts,
)
from paceline.runtime.governor.values import EngineLoad, StepSample

_NUM_STEPS = 60


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One promise that a policy does not keep."""

    promise: str
    finding: str
    """What happened instead."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.finding}"


def find_broken_promises(make_policy: MakePolicy, max_draft_length: int = 8) -> list[BrokenPromise]:
    """Every promise that the policies of `make_policy` break; empty for a policy that keeps all.

    `max_draft_length` is the ceiling that they were built for. Never raises, whatever a policy
    does.
    """
    if max_draft_length < 1:
        raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
    found: dict[str, str] = {}
    for promise, check in _checks(max_draft_length):
        if promise not in found:
            try:
                check(make_policy, max_draft_length)
            except Broken as broken:
                found[promise] = str(broken)
    return [BrokenPromise(promise, finding) for promise, finding in found.items()]


def _checks(ceiling: int) -> Iterator[tuple[str, Callable[[MakePolicy, int], None]]]:
    """Each promise with its check, or with several in a row."""
    yield "A policy can be built and has `observe` and `plan`", _can_be_built
    for promise, script in _scripts(ceiling):
        yield promise, partial(follow, script=script)
    yield from _OTHERS.items()


def _scripts(ceiling: int) -> Iterator[tuple[str, list[Step]]]:
    """What a new policy observes and plans for, with the promise that it breaks if it fails."""

    def load(when: str, make: Callable[..., EngineLoad] = ordinary_load, **changes: Any) -> Step:
        return make(**({"max_draft_length": ceiling} | changes)), when

    def steps(num_steps: int, *columns: Iterable[Step], when: str = "") -> list[Step]:
        """Ordinary samples, each followed by one step of each column."""
        samples = varied_samples(num_steps, ceiling)
        ordinary = ((sample, f"with ordinary samples{when}") for sample in samples)
        return [*chain.from_iterable(zip(ordinary, *columns, strict=False))]

    yield "A policy plans before the first sample", [load("before the first sample")] * 100

    empty = load("for a load without requests", num_requests=0, context_tokens=0)
    script = [empty, *steps(_NUM_STEPS, repeat(empty))]
    yield "A policy plans for a load without requests", script

    prompts = load("for requests that are all prefilling", prefill_tokens=8000, num_prefilling=4)
    prefills = map(_prefill, varied_samples(_NUM_STEPS, ceiling))
    script = [prompts, *steps(_NUM_STEPS, prefills, repeat(prompts))]
    yield "A policy plans for a load that only prefills", script

    lengths = chain(repeat(ceiling, 400), repeat(0))
    lowered = (
        load(f"under a ceiling lowered to {length}", max_draft_length=length)
        for length in map(Spread(1).whole, lengths)
    )
    yield "A policy keeps to the ceiling in force, from the next plan on", steps(450, lowered)

    for allowed in ((0, 1, 3, 7), (0, ceiling), (0,)):
        when = f"where only {allowed} are allowed"
        loads = (load(when, allowed_lengths=allowed, num_requests=1 + n % 40) for n in count())
        yield "A policy plans lengths that are allowed", steps(400, loads)

    for case, samples in extreme_samples(ceiling).items():
        crowds: list[Step] = []
        for size in (1, 256, 4096):
            crowd: dict[str, Any] = {"num_requests": size, "context_tokens": 10**7}
            when = f"with {case}, at {size} requests"
            crowds += load(when, **crowd), load(f"{when} of known classes", rich_load, **crowd)
        extreme = chain.from_iterable([(sample, f"with {case}"), *crowds] for sample in samples)
        after = steps(50, repeat(load(f"after {case}")), when=f" after {case}")
        yield "A policy tolerates extreme samples", [*extreme, *after]

    ordinary = steps(_NUM_STEPS, repeat(load("with ordinary samples")))
    waits = (load(f"{number} steps after the last sample") for number in range(1, 1001))
    yield "A policy tolerates missing samples", [*ordinary, *waits]

    # Every plan of every check is held to it (`driving.plan`); here abilities come and go.
    when = "in an engine whose abilities come and go"
    loads = (load(when, rich_load, reports_confidences=n % 3 > 0) for n in count())
    yield "A policy uses only what the engine has", steps(400, loads)


def _prefill(sample: StepSample) -> Step:
    prefill = replace(sample, prefill_tokens=8000, num_prefilling=sample.num_requests)
    return replace(prefill, drafted=(), accepted=(), judged=()), "with a prefill"


def _can_be_built(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for method in ("observe", "plan"):
        if not callable(getattr(policy, method, None)):
            raise Broken(f"{type(policy).__name__} has no method {method}")


def _leaves_samples_unchanged(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for sample in varied_samples(50, ceiling):
        before = copy.deepcopy(sample)
        observe(policy, sample, "with ordinary samples")
        if sample != before:
            raise Broken(f"observe changed {before} to {sample}")


def _repeats_itself(make_policy: MakePolicy, ceiling: int) -> None:
    """One policy alone, and another beside a third one, which must not share its state."""
    for make_load, num_requests in ((ordinary_load, 1), (rich_load, 16)):
        load = make_load(ceiling, num_requests=num_requests)
        alone = list(drive(build(make_policy), load, 4 * _NUM_STEPS))
        second, third = build(make_policy), build(make_policy)
        others = drive(third, ordinary_load(ceiling, num_requests=7), 4 * _NUM_STEPS)
        pairs = zip(drive(second, load, 4 * _NUM_STEPS), others, strict=True)
        for step, (one, (other, _)) in enumerate(zip(alone, pairs, strict=True)):
            if one != other:
                raise Broken(
                    "two new policies in the same engine planned differently, the second beside a "
                    f"third: in step {step} {one[0]} ({one[1]}) against {other[0]} ({other[1]})"
                )


_OTHERS: dict[str, Callable[[MakePolicy, int], None]] = {
    "A policy leaves samples unchanged": _leaves_samples_unchanged,
    "The same samples and loads give the same plans": _repeats_itself,
    "Widths are from 0 to the number of passes": keeps_widths_within_the_drafts,
    "A token is kept or not before it is drawn": chooses_widths_before_the_tokens,
}
