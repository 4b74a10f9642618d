"""`paceline tune` with real requests whose rates are those of the mock server, not of this machine.

As a program, it runs the command with its arguments.
"""

from __future__ import annotations

import sys

from paceline.cli import main
from paceline.workbench.tune.live import servers
from paceline.workbench.tune.live.block import LiveServer
from paceline.workbench.tune.values import Cell, Measurement, Trial

_TOKENS = 7
"""Of an answer."""


class KnownRates(LiveServer):
    """Sends the requests of a block, and reports what an idle machine measures in a long one.

    A machine that stands still for half a block would decide which setting wins.
    """

    async def run(self, trial: Trial) -> Measurement:
        records = await self._apply(trial.purpose, trial.sequence, trial.cell.live)
        num_ok = sum(record.is_ok for record in records)
        rate = requests_per_s(trial.cell)
        return Measurement(
            good_requests_per_s=rate,
            requests_per_s=rate,
            output_tokens_per_s=_TOKENS * rate,
            num_requests=len(records),
            num_met=num_ok,
            num_errors=len(records) - num_ok,
            ttft_p95_ms=20.0,
            tpot_p95_ms=10.0,
        )


def requests_per_s(cell: Cell) -> float:
    """A step of n requests takes 10 + n - 1 ms, and yields 3 tokens of each with drafts.

    Where no request waits at the server, the next one comes 2 ms after an answer.
    """
    batch = int(str(cell.restart.get("seqs")))
    num_running = min(cell.live.max_in_flight, batch)
    num_steps = _TOKENS / (3 if cell.live.draft_length else 1)
    gap_s = 0.0 if cell.live.max_in_flight > batch else 0.002
    return num_running / (num_steps * (0.010 + 0.001 * (num_running - 1)) + gap_s)


if __name__ == "__main__":
    servers.LiveServer = KnownRates  # type: ignore[misc]
    main(sys.argv[1:])
