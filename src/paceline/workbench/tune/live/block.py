"""Run the trials of one live server: set the live setting, apply the load, measure a window.

The load is a closed loop of as many requests as the setting admits in flight, which is how a server
with this limit works while requests wait. So the limit needs no restart. Every trial has a prefix
cache of its own where the server supports vLLM's `cache_salt`.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError
from paceline.foundation.load.driver import LoadRun, Stretch
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.slo import Slo
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_specs
from paceline.workbench.tune.live.governor import GovernorControl
from paceline.workbench.tune.live.window import measure_window
from paceline.workbench.tune.values import LiveSetting, Measurement, Purpose, Trial, TuneError

_SCORING_FRACTION = 0.2
"""Of the prompts, to qualify finalists, and as many to report them; chosen empirically."""
_SETTLE_FRACTION = 0.25
"""Of a block, before its window: the first requests start together, and a governor adapts."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The requests and the window of all trials."""

    prompts: Sequence[Prompt]
    sampling: SamplingSettings
    """Its model is replaced by the server's."""
    slo: Slo
    block_s: float
    """Length of the measured window."""
    seed: int

    def sequence(self, purpose: Purpose, number: int) -> list[Prompt]:
        """The prompts of a sequence, in order; no two purposes have one in common.

        Raises TuneError for a workload of fewer than three prompts.
        """
        if len(self.prompts) < len(Purpose):
            raise TuneError(
                f"the workload has {len(self.prompts)} prompts and needs at least {len(Purpose)}: "
                "search, qualifying and held-out requests have prompts of their own (--prompts)"
            )
        part = max(1, round(len(self.prompts) * _SCORING_FRACTION))
        chosen = {
            Purpose.HELD_OUT: slice(part),
            Purpose.QUALIFYING: slice(part, 2 * part),
            Purpose.SEARCH: slice(2 * part, None),
        }
        order = list(self.prompts[chosen[purpose]])
        random.Random(f"{self.seed} {purpose.value} {number}").shuffle(order)
        return order


class LiveServer:
    """A `TrialServer` over HTTP."""

    def __init__(
        self,
        client: StreamingClient,
        load: LoadSettings,
        model: str,
        governor: GovernorControl | None,
        salt: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._client = client
        self._load = dataclasses.replace(
            load, sampling=dataclasses.replace(load.sampling, model=model)
        )
        self._governor = governor
        self._salt = salt
        self._clock = clock
        self._salts_cache = False
        self._numbers = itertools.count()

    async def warm_up(self, settings: Sequence[LiveSetting]) -> None:
        """Find out whether the server supports `cache_salt`, and load it as heavily as any trial.

        Raises BenchError if it answers no request.
        """
        specs = self._specs(self._load.sequence(Purpose.SEARCH, 0), "probe")
        record = await self._client.send(next(specs), 0.0, self._clock())
        self._salts_cache = record.is_ok
        heaviest = max(settings, key=lambda live: live.max_in_flight)
        await self._apply(Purpose.SEARCH, 0, heaviest)

    async def run(self, trial: Trial) -> Measurement:
        """See `TrialServer`."""
        records = await self._apply(trial.purpose, trial.sequence, trial.cell.live)
        start_s = self._load.block_s * _SETTLE_FRACTION
        return measure_window(records, self._load.slo, start_s, start_s + self._load.block_s)

    async def _apply(
        self, purpose: Purpose, sequence: int, live: LiveSetting
    ) -> list[RequestRecord]:
        if self._governor is not None:
            await self._governor.hold(live.draft_length)
        salt = f"{next(self._numbers)}" if self._salts_cache else None
        specs = self._specs(self._load.sequence(purpose, sequence), salt)
        run = LoadRun(self._client, self._clock, _ignore)
        end_s = self._load.block_s * (1 + _SETTLE_FRACTION)
        await run.closed_loop(Stretch(specs, end_s=end_s), live.max_in_flight)
        records = run.records
        if not any(record.is_ok for record in records):
            raise BenchError(
                f"the server answered none of {len(records)} requests: {records[0].error}"
            )
        return records

    def _specs(self, prompts: Sequence[Prompt], salt: str | None) -> Iterator[RequestSpec]:
        sampling = self._load.sampling
        if salt is not None:
            extra_body = {**sampling.extra_body, "cache_salt": f"{self._salt}-{salt}"}
            sampling = dataclasses.replace(sampling, extra_body=extra_body)
        return build_specs(prompts, sampling)


def _ignore(record: RequestRecord) -> None:
    """Blocks are short; progress is shown by trial."""
