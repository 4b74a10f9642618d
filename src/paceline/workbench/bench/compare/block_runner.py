"""Apply the load of a block to a server over HTTP.

Each block has a prefix cache of its own where the server supports vLLM's `cache_salt`, so the
second pass over the same prompts is not answered from the cache of the first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError
from paceline.foundation.load.driver import run_closed_loop, run_open_loop
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.workloads import RequestSpec
from paceline.workbench.bench.compare.block_load import BlockLoad, choose_num_requests
from paceline.workbench.bench.compare.contrasts import Arm, Block, make_block

_PILOT_WAVES = 2
"""Requests of the pilot per slot: the first wave also warms the server up."""


async def _as_it_is() -> None:
    """Leave the server as it is."""


@dataclass(frozen=True, slots=True)
class Target:
    """One arm's server."""

    client: StreamingClient
    model: str
    switch: Callable[[], Awaitable[None]] = _as_it_is
    """Gives the server the arm's setting; before every block, also after a block of the same arm.
    Raises BenchError or SwitchUnavailable."""


class HttpBlockRunner:
    """A `BlockRunner` for two live servers, or two settings of one."""

    def __init__(
        self,
        targets: Mapping[Arm, Target],
        load: BlockLoad,
        salt: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._targets = targets
        self._load = load
        self._salt = salt
        self._clock = clock
        self._start_s = clock()
        self.salts_cache = False
        """Whether each block has a prefix cache of its own; known after `prepare`."""

    @property
    def num_requests(self) -> int:
        return self._load.num_requests

    async def prepare(self, block_s: float) -> None:
        """Find out whether the servers support `cache_salt`, and how many requests a block takes.

        Raises BenchError if a server answers none of the first requests.
        """
        self.salts_cache = all([await self._accepts_salt(arm) for arm in self._targets])
        rates = [await self._measure_rate(arm) for arm in self._targets]
        if self._load.rate_per_s is not None:
            rates = [self._load.rate_per_s]
        num_requests = choose_num_requests(min(rates), block_s, self._load.concurrency)
        self._load = replace(self._load, num_requests=num_requests)

    async def run(self, arm: Arm, round_index: int, position: int) -> Block:
        """See `BlockRunner`."""
        await self._targets[arm].switch()
        started_s = self._clock() - self._start_s
        specs = self._specs(arm, round_index, f"{round_index}-{position}")
        records = await self._send(arm, specs, round_index)
        return make_block(
            records, round_index=round_index, position=position, arm=arm, started_s=started_s
        )

    async def _accepts_salt(self, arm: Arm) -> bool:
        """Whether the server answers a short request that carries `cache_salt`."""
        target = self._targets[arm]
        extra: dict[str, object] = {"cache_salt": f"{self._salt}-probe", "max_tokens": 1}
        spec = self._load.specs(0, target.model, extra)[0]
        return (await target.client.send(spec, 0.0, self._clock())).is_ok

    async def _measure_rate(self, arm: Arm) -> float:
        """Requests per second of a short closed loop, which also warms the arm up."""
        slots = self._load.concurrency or 1
        pilot = replace(self._load, num_requests=slots * _PILOT_WAVES)
        target = self._targets[arm]
        await target.switch()
        specs = pilot.specs(0, target.model, self._salt_field("pilot"))
        records = await run_closed_loop(
            target.client, iter(specs), slots, None, self._clock, _ignore
        )
        failed = [record for record in records if not record.is_ok]
        if len(failed) == len(records):
            raise BenchError(f"{arm.upper()} answered none of {len(failed)}: {failed[0].error}")
        duration_s = max(r.finished_s for r in records)
        return (len(records) - len(failed)) / max(duration_s, 1e-6)

    async def _send(
        self, arm: Arm, specs: Sequence[RequestSpec], round_index: int
    ) -> list[RequestRecord]:
        client = self._targets[arm].client
        if self._load.rate_per_s is not None:
            offsets_s = self._load.offsets_s(round_index)
            return await run_open_loop(client, specs, offsets_s, self._clock, _ignore)
        slots = self._load.concurrency or 1
        return await run_closed_loop(client, iter(specs), slots, None, self._clock, _ignore)

    def _specs(self, arm: Arm, round_index: int, block: str) -> list[RequestSpec]:
        return self._load.specs(round_index, self._targets[arm].model, self._salt_field(block))

    def _salt_field(self, block: str) -> dict[str, object]:
        return {"cache_salt": f"{self._salt}-{block}"} if self.salts_cache else {}


def _ignore(record: RequestRecord) -> None:
    """Blocks are short; progress is shown by round."""
