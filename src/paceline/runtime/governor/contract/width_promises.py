"""The promises of a policy that chooses how many drafts of each request are verified."""

from __future__ import annotations

import math

import numpy as np

from paceline.runtime.governor.contract.driving import (
    Broken,
    MakePolicy,
    build,
    choose_widths,
    drive,
    plan,
)
from paceline.runtime.governor.contract.samples import Spread, rich_load, varied_confidences
from paceline.runtime.governor.policy import ChoosesWidths

_NUM_STEPS = 60
_NUM_REQUESTS = 4
_BATCHES = (1, 2, 16, 0, 256)
_ABSURD = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 2.0, 1e-300)


def keeps_widths_within_the_drafts(make_policy: MakePolicy, ceiling: int) -> None:
    """Whatever the batch, its classes and confidences; with and without a plan before."""
    policy = build(make_policy)
    if not isinstance(policy, ChoosesWidths):
        return
    spread = Spread(2)
    before = varied_confidences(spread, _NUM_REQUESTS, ceiling)
    choose_widths(policy, before, ["greedy"] * _NUM_REQUESTS, "before the first plan")
    for step in range(_NUM_STEPS):
        num_requests = _BATCHES[step % len(_BATCHES)]
        plan(policy, rich_load(ceiling, num_requests=num_requests), f"in step {step}")
        classes = [f"class {step + number}" for number in range(num_requests)]
        for num_passes in (1, ceiling):
            ordinary = varied_confidences(spread, num_requests, num_passes)
            absurd = np.resize(_ABSURD, (num_requests, num_passes))
            limits = [number % (num_passes + 1) for number in range(num_requests)]
            choose_widths(policy, ordinary, classes, f"in step {step}", limits)
            choose_widths(policy, absurd, classes, f"with absurd confidences, in step {step}")
    load = rich_load(ceiling, num_requests=_NUM_REQUESTS)
    list(drive(policy, load, _NUM_STEPS, "after absurd confidences, "))


def chooses_widths_before_the_tokens(make_policy: MakePolicy, ceiling: int) -> None:
    """Whether token j is verified follows from what is known before it is drawn
    (`drafting.drafting_round`).

    Two policies with the same past get confidences that agree in the first passes only, and other
    limits, since a grammar cuts a draft by its tokens. What they keep of those passes must agree.
    """
    for num_steps in range(0, _NUM_STEPS, 4):
        known = 1 + num_steps % max(ceiling - 1, 1)
        kept = []
        for later, limit in ((0.95, ceiling), (0.05, 0)):
            policy = build(make_policy)
            if not isinstance(policy, ChoosesWidths):
                return
            load = rich_load(ceiling, num_requests=_NUM_REQUESTS)
            list(drive(policy, load, num_steps))
            plan(policy, load, f"in step {num_steps}")
            confidences = varied_confidences(Spread(num_steps), _NUM_REQUESTS, ceiling)
            confidences[:, known:] = later
            classes, limits = [*load.classes] * 2, [limit] * _NUM_REQUESTS
            widths = choose_widths(policy, confidences, classes, f"in step {num_steps}", limits)
            kept.append([min(width, known) for width in widths])
        if kept[0] != kept[1]:
            raise Broken(
                f"in step {num_steps}, of the first {known} tokens of each request, {kept[0]} are "
                f"verified, but {kept[1]} where later tokens have other confidences and drafts "
                "other limits"
            )
