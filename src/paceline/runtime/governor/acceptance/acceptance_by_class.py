"""Acceptance by class of request, and of a batch that mixes classes.

How well a draft model does depends on how the request samples and on what binds its answer, which
are known before the first verdict: a class is a name for both, chosen by the caller ("greedy",
"sampled", "sampled json"). A greedy request says nothing about those that sample, and no batch
average carries over to a batch of another mixture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import mul

import numpy as np

from paceline.runtime.governor.acceptance.confidence_map import Floats, Ints
from paceline.runtime.governor.acceptance.hazards import Hazards
from paceline.runtime.governor.acceptance.per_class import ANY_CLASS, ClassRows, PerClass
from paceline.runtime.governor.values import StepSample


class AcceptanceByClass:
    """Learns `Hazards` for each class that it meets."""

    def __init__(self, max_draft_length: int) -> None:
        self._hazards = PerClass(lambda: Hazards(max_draft_length))

    def observe(self, sample: StepSample) -> None:
        """Count one step's verdicts. Cheap even for hundreds of requests."""
        if not sample.drafted:
            return
        count = len(sample.drafted)
        classes = sample.classes or repeat(ANY_CLASS, count)
        length, requested = sample.requested_draft_length, sample.requested
        by_class: dict[str, dict[tuple[int, int, int], float]] = {}
        if not requested and len(set(sample.drafted)) == 1:  # equal drafts: half of the time
            offered = sample.drafted[0]
            outcomes = Counter(zip(classes, sample.accepted, strict=True))
            for (name, accepted), num_drafts in outcomes.items():
                by_class.setdefault(name, {})[length, offered, accepted] = num_drafts
        else:
            wanted = requested or repeat(length, count)
            drafts = zip(classes, wanted, sample.drafted, sample.accepted, strict=True)
            for (name, *draft), num_drafts in Counter(drafts).items():
                by_class.setdefault(name, {})[draft[0], draft[1], draft[2]] = num_drafts
        for name, verdicts in by_class.items():
            self._hazards[name].learn(verdicts)

    def learn_dropped(self, classes: ClassRows, survival: Floats, widths: Ints) -> None:
        """Count the tokens of one step that are not verified, by the chances that they have.

        Without them, acceptance would be that of the tokens with the highest chances, and nothing
        would be learned while no token is worth its price. `survival` has shape (num_requests,
        num_passes), `widths` (num_requests,).
        """
        num_passes = survival.shape[1]
        dropped = np.arange(num_passes) >= widths[:, None]
        accepted = np.where(dropped, survival, 0.0)
        before = np.ones_like(survival)
        before[:, 1:] = survival[:, :-1]
        reached = np.where(dropped, before, 0.0)
        for row, name in enumerate(classes.names):
            weights = (classes.of_request == row).astype(survival.dtype)
            self._hazards[name].learn_dropped(
                (weights @ reached).tolist(),
                (weights @ accepted).tolist(),
                num_drafts=int(weights.sum()),
                num_empty=int(weights @ (widths == 0)),
            )

    def hazards(self, name: str) -> Hazards:
        """Those of one class; of a new one the prior."""
        return self._hazards[name]

    def survival(self, classes: Mapping[str, int]) -> Sequence[float]:
        """P(at least j tokens accepted) of a request of this mixture, shape (max_draft_length,).

        `classes` has the number of requests of each class; empty for requests without one.
        """
        return _mean(classes, [self._hazards[name].survival for name in classes or (ANY_CLASS,)])

    def offered(self, classes: Mapping[str, int]) -> Sequence[float]:
        """P(at least j tokens offered), likewise."""
        return _mean(classes, [self._hazards[name].offered for name in classes or (ANY_CLASS,)])


def _mean(classes: Mapping[str, int], rows: Sequence[Sequence[float]]) -> Sequence[float]:
    if len(rows) == 1:
        return rows[0]
    total = sum(classes.values()) or 1
    weights = [count / total for count in classes.values()]
    return [sum(map(mul, weights, column)) for column in zip(*rows, strict=True)]
