"""Rounds with given figures, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.workbench.bench.compare.contrasts import Arm, Block, Round

ABBA = (Arm.A, Arm.B, Arm.B, Arm.A)
BAAB = (Arm.B, Arm.A, Arm.A, Arm.B)


def make_round(
    rates: Sequence[float | None],
    *,
    order: Sequence[Arm] = ABBA,
    index: int = 0,
    num_errors: int = 0,
) -> Round:
    """Four blocks with these output tokens/s; 100 / rate is both latencies in ms."""
    blocks = [
        Block(
            round_index=index,
            position=position,
            arm=arm,
            started_s=0.0,
            window_s=1.0,
            num_requests=4,
            num_errors=num_errors if position == 0 else 0,
            output_tokens=100,
            output_tokens_per_s=rate,
            ttft_ms=None if rate is None else 100 / rate,
            tpot_ms=None if rate is None else 100 / rate,
            dispatch_delays_ms=(0.1,) * 4,
        )
        for position, (arm, rate) in enumerate(zip(order, rates, strict=True))
    ]
    return Round((blocks[0], blocks[1], blocks[2], blocks[3]))
