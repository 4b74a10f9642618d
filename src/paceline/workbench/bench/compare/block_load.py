"""The requests of each round, and how many a block sends.

Both arms get the same prompts, seeds and arrival offsets in a round; each round takes the next
prompts of the workload.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.foundation.load.arrivals import poisson_arrivals
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_spec

_WAVES = 4
"""Requests of each slot, at least. At the end of a block its slots become idle one by one, and the
longest answer alone decides when the last one does. With one request for each of 16 slots, that
made speculation look 5 to 8 % slower than none; with three, it was as fast (observed)."""


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """The load of one block. `sampling` holds all but the model, which may differ by arm."""

    prompts: Sequence[Prompt]
    sampling: SamplingSettings
    num_requests: int
    concurrency: int | None
    rate_per_s: float | None
    seed: int

    def specs(
        self, round_index: int, model: str, extra_body: Mapping[str, object]
    ) -> list[RequestSpec]:
        """The requests of a round for a server that calls its model `model`."""
        sampling = replace(
            self.sampling, model=model, extra_body={**self.sampling.extra_body, **extra_body}
        )
        first = round_index * self.num_requests
        chosen = itertools.islice(
            itertools.cycle(self.prompts),
            first % len(self.prompts),
            first % len(self.prompts) + self.num_requests,
        )
        return [build_spec(prompt, sampling, first + i) for i, prompt in enumerate(chosen)]

    def offsets_s(self, round_index: int) -> list[float]:
        """Open loop only: the arrivals of a round, in seconds, (num_requests,)."""
        assert self.rate_per_s is not None
        seed = self.seed * 1_000_003 + round_index
        return [float(s) for s in poisson_arrivals(self.rate_per_s, seed, self.num_requests)]


def choose_num_requests(requests_per_s: float, block_s: float, concurrency: int | None) -> int:
    """Requests that last about `block_s`; of several closed-loop slots, at least four for each.

    >>> choose_num_requests(10.0, 2.0, 4), choose_num_requests(0.1, 2.0, 4)
    (20, 16)
    """
    fewest = _WAVES * concurrency if concurrency is not None and concurrency > 1 else 1
    return max(fewest, round(requests_per_s * block_s))
