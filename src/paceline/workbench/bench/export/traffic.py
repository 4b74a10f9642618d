"""Every request of a run and, in an open loop, its time: what an exported script replays.

Requests, their order, seeds and arrivals are those of `paceline bench run` with the same options.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.foundation.load.arrivals import poisson_arrivals
from paceline.foundation.workloads import Prompt, SamplingSettings, build_specs


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of one run. Either `concurrency` (closed loop) or `offsets_s` (open loop) is set."""

    url: str
    requests: tuple[dict[str, str], ...]
    """`task`, `path` and `body`, a JSON text, of each request in order."""
    concurrency: int | None
    offsets_s: tuple[float, ...] | None
    """When each request is due, in seconds from the start; as many as there are requests."""
    timeout_s: float

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.offsets_s is None):
            raise ValueError("give either a concurrency (closed loop) or offsets (open loop)")
        if self.offsets_s is not None and len(self.offsets_s) != len(self.requests):
            raise ValueError(
                f"{len(self.offsets_s)} offsets for {len(self.requests)} requests; each request "
                "needs one"
            )

    def as_document(self) -> dict[str, Any]:
        """The value that the script holds as JSON."""
        return {
            "url": self.url,
            "requests": list(self.requests),
            "concurrency": self.concurrency,
            "offsets_s": None if self.offsets_s is None else list(self.offsets_s),
            "timeout_s": self.timeout_s,
        }


def make_traffic(
    url: str,
    prompts: Sequence[Prompt],
    sampling: SamplingSettings,
    *,
    num_requests: int,
    concurrency: int | None,
    rate_per_s: float | None,
    timeout_s: float,
) -> Traffic:
    """The traffic of `num_requests` requests at this concurrency or rate."""
    specs = itertools.islice(build_specs(prompts, sampling), num_requests)
    offsets_s = None
    if rate_per_s is not None:
        arrivals = poisson_arrivals(rate_per_s, sampling.seed, num_requests)
        offsets_s = tuple(round(float(s), 6) for s in arrivals)
    return Traffic(
        url=url,
        requests=tuple(
            {"task": spec.task, "path": spec.path, "body": spec.body.decode()} for spec in specs
        ),
        concurrency=concurrency if rate_per_s is None else None,
        offsets_s=offsets_s,
        timeout_s=timeout_s,
    )
